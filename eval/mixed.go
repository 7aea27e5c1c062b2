package eval

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// Fixed is a fixed effect of a [MixedModel]: its value for each observation.
type Fixed struct {
	Name   string
	Values []float64
}

// Factor is a random intercept of a [MixedModel]: the level of each observation, such as the
// patient.
type Factor struct {
	Name   string
	Levels []string
}

// MixedModel is a linear model y = X b + sum of Z u + e with fixed effects X, random intercepts u,
// independent and normal with a variance for each factor, and a normal error e. Factors may cross,
// as runs and patients do. The intercept is a fixed effect of ones, which the caller adds.
type MixedModel struct {
	Y      []float64
	Fixed  []Fixed
	Random []Factor
}

// Effect is an estimated fixed effect. Its test against 0 is Student's t with Satterthwaite's
// degrees of freedom, which heed how few levels the random factors have.
type Effect struct {
	Name         string
	Estimate, SE float64
	DF           float64
	Interval     Interval // 95 %
	Test         Test     // two-sided; Pairs is the number of observations
}

// Scatter is the standard deviation of a random intercept.
type Scatter struct {
	Name string
	SD   float64
}

// MixedFit is a fitted [MixedModel].
type MixedFit struct {
	Effects      []Effect  // in the order of the fixed effects
	Random       []Scatter // of the random intercepts, in the order of the factors
	Residual     float64   // standard deviation of the error
	Criterion    float64   // -2 times the restricted log-likelihood
	Observations int
}

// Fit estimates the model by restricted maximum likelihood (REML), as lme4 does: the likelihood is
// profiled over the fixed effects and the error, and maximised over the standard deviations of the
// intercepts relative to the error's (Bates et al., Journal of Statistical Software 67(1), 2015).
// Degrees of freedom are those of lmerTest (Kuznetsova et al., ibid. 82(13), 2017).
func (m MixedModel) Fit() (MixedFit, error) {
	p, err := m.products()
	if err != nil {
		return MixedFit{}, err
	}
	theta, err := p.optimum()
	if err != nil {
		return MixedFit{}, err
	}
	s, ok := p.solve(theta)
	if !ok {
		return MixedFit{}, errCollinear
	}
	n, k := len(m.Y), len(m.Fixed)
	sigma := math.Sqrt(s.residual / float64(n-k))
	fit := MixedFit{Residual: sigma, Criterion: s.profiled(n), Observations: n}
	for f, t := range theta {
		fit.Random = append(fit.Random, Scatter{m.Random[f].Name, t * sigma})
	}
	df := p.satterthwaite(theta, sigma)
	for j, f := range m.Fixed {
		e := Effect{Name: f.Name, Estimate: s.coefficients[j] + p.fitted[j], SE: sigma * math.Sqrt(s.variance.At(j, j)),
			DF: df[j]}
		e.Test = Test{Statistic: e.Estimate / e.SE, Pairs: n, P: math.NaN()}
		e.Interval = Interval{math.NaN(), math.NaN()}
		if e.DF > 0 {
			t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: e.DF}
			e.Test.P = 2 * t.Survival(math.Abs(e.Test.Statistic))
			half := t.Quantile(0.975) * e.SE
			e.Interval = Interval{e.Estimate - half, e.Estimate + half}
		}
		fit.Effects = append(fit.Effects, e)
	}
	return fit, nil
}

var errCollinear = errors.New("the fixed effects of the mixed model are not independent of one another: leave one out")

// products are the cross products that the likelihood needs, computed once: with q levels in all
// and k fixed effects they are small however many observations there are. y has its least-squares
// fit taken off, so that the sums of squares lose no digits.
type products struct {
	observations int
	sizes        []int // levels of each factor
	ztz          *mat.SymDense
	ztx          *mat.Dense
	zty          *mat.VecDense
	xtx          *mat.SymDense
	xty          *mat.VecDense
	yty          float64
	fitted       []float64 // coefficients of the fit that was taken off
}

func (m MixedModel) products() (*products, error) {
	n, k := len(m.Y), len(m.Fixed)
	if k == 0 || n <= k {
		return nil, fmt.Errorf("a mixed model of %d observations cannot have %d fixed effects", n, k)
	}
	x := mat.NewDense(n, k, nil)
	for j, f := range m.Fixed {
		if len(f.Values) != n {
			return nil, fmt.Errorf("fixed effect %s has %d values for %d observations", f.Name, len(f.Values), n)
		}
		x.SetCol(j, f.Values)
	}
	level, sizes, err := m.levels()
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(append(slices.Clone(m.Y), x.RawMatrix().Data...),
		func(v float64) bool { return !numbers.Finite(v) }) {
		return nil, errors.New("a mixed model needs finite values")
	}
	var qr mat.QR
	qr.Factorize(x)
	if qr.Cond() > 1e10 {
		return nil, errCollinear
	}
	b, y := new(mat.VecDense), mat.NewVecDense(n, slices.Clone(m.Y))
	if err := qr.SolveVecTo(b, false, y); err != nil {
		return nil, errCollinear
	}
	var fit mat.VecDense
	fit.MulVec(x, b)
	y.SubVec(y, &fit)

	p := &products{observations: n, sizes: sizes, xtx: mat.NewSymDense(k, nil), xty: new(mat.VecDense),
		yty: mat.Dot(y, y), fitted: b.RawVector().Data}
	p.xtx.SymOuterK(1, x.T())
	p.xty.MulVec(x.T(), y)
	p.addLevels(level, x, y)
	return p, nil
}

// levels numbers the levels of all factors, one factor after the other: level[f][n] is the column
// of observation n.
func (m MixedModel) levels() (level [][]int, sizes []int, err error) {
	first := 0
	for _, f := range m.Random {
		if len(f.Levels) != len(m.Y) {
			return nil, nil, fmt.Errorf("random intercept %s has %d levels for %d observations", f.Name, len(f.Levels),
				len(m.Y))
		}
		at, column := map[string]int{}, make([]int, len(m.Y))
		for n, name := range f.Levels {
			if _, seen := at[name]; !seen {
				at[name] = first + len(at)
			}
			column[n] = at[name]
		}
		level, sizes = append(level, column), append(sizes, len(at))
		first += len(at)
	}
	return level, sizes, nil
}

// addLevels computes the products with Z, whose rows hold a one for the level of each factor.
func (p *products) addLevels(level [][]int, x *mat.Dense, y *mat.VecDense) {
	q := 0
	for _, size := range p.sizes {
		q += size
	}
	_, k := x.Dims()
	q = max(q, 1) // a model without random intercepts has one column of zeros
	p.ztz, p.ztx, p.zty = mat.NewSymDense(q, nil), mat.NewDense(q, k, nil), mat.NewVecDense(q, nil)
	for n := range p.observations {
		for f := range level {
			a := level[f][n]
			p.zty.SetVec(a, p.zty.AtVec(a)+y.AtVec(n))
			for j := range k {
				p.ztx.Set(a, j, p.ztx.At(a, j)+x.At(n, j))
			}
			for g := range f + 1 {
				b := level[g][n]
				p.ztz.SetSym(a, b, p.ztz.At(a, b)+1)
			}
		}
	}
}

// solution is the model solved for given relative standard deviations.
type solution struct {
	coefficients []float64
	residual     float64       // penalised sum of squares
	variance     *mat.SymDense // of the coefficients, in units of the error's variance
	logDet       float64       // of both Cholesky factors, doubled
	fixed        int
}

// profiled is -2 times the restricted log-likelihood at the best error variance.
func (s solution) profiled(observations int) float64 {
	nu := float64(observations - s.fixed)
	return s.logDet + nu*(1+math.Log(2*math.Pi*s.residual/nu))
}

// at is -2 times the restricted log-likelihood at a given standard deviation of the error.
func (s solution) at(sigma float64, observations int) float64 {
	nu := float64(observations - s.fixed)
	return s.logDet + nu*math.Log(2*math.Pi*sq(sigma)) + s.residual/sq(sigma)
}

// solve solves the mixed-model equations: with L the diagonal of relative standard deviations, the
// Cholesky factor of L Z'Z L + I, and that of X'X less what Z explains.
func (p *products) solve(theta []float64) (solution, bool) {
	l := p.diagonal(theta)
	var random, fixed mat.Cholesky
	if !random.Factorize(p.scaledZTZ(l)) {
		return solution{}, false
	}
	zx, zy := p.scaledZ(l)
	var inverseZX mat.Dense
	var inverseZY mat.VecDense
	if random.SolveTo(&inverseZX, zx) != nil || random.SolveVecTo(&inverseZY, zy) != nil {
		return solution{}, false
	}
	if !fixed.Factorize(p.unexplained(zx, &inverseZX)) {
		return solution{}, false
	}
	var b, right mat.VecDense
	right.MulVec(zx.T(), &inverseZY)
	right.SubVec(p.xty, &right)
	k := right.Len()
	s := solution{fixed: k, variance: mat.NewSymDense(k, nil), logDet: random.LogDet() + fixed.LogDet()}
	if fixed.SolveVecTo(&b, &right) != nil || fixed.InverseTo(s.variance) != nil {
		return solution{}, false
	}
	s.coefficients = b.RawVector().Data
	s.residual = p.yty - mat.Dot(zy, &inverseZY) - mat.Dot(&right, &b)
	return s, s.residual > 0
}

// diagonal is L: the relative standard deviation of each level.
func (p *products) diagonal(theta []float64) []float64 {
	l := make([]float64, 0, p.ztz.SymmetricDim())
	for f, size := range p.sizes {
		l = append(l, slices.Repeat([]float64{math.Abs(theta[f])}, size)...)
	}
	return l[:cap(l)]
}

// scaledZTZ is L Z'Z L + I.
func (p *products) scaledZTZ(l []float64) *mat.SymDense {
	a := mat.NewSymDense(len(l), nil)
	from, to := p.ztz.RawSymmetric(), a.RawSymmetric() // upper triangles
	for i := range l {
		for j := i; j < len(l); j++ {
			to.Data[i*to.Stride+j] = l[i] * l[j] * from.Data[i*from.Stride+j]
		}
		to.Data[i*to.Stride+i]++
	}
	return a
}

// scaledZ is L Z'X and L Z'y.
func (p *products) scaledZ(l []float64) (*mat.Dense, *mat.VecDense) {
	zx, zy := mat.DenseCopyOf(p.ztx), mat.VecDenseCopyOf(p.zty)
	for i, scale := range l {
		zy.SetVec(i, scale*zy.AtVec(i))
		row := zx.RawRowView(i)
		for j := range row {
			row[j] *= scale
		}
	}
	return zx, zy
}

// unexplained is X'X less what the random intercepts explain of it.
func (p *products) unexplained(zx, inverseZX *mat.Dense) *mat.SymDense {
	var explained mat.Dense
	explained.Mul(zx.T(), inverseZX)
	k := p.xtx.SymmetricDim()
	rest := mat.NewSymDense(k, nil)
	for i := range k {
		for j := range i + 1 {
			rest.SetSym(i, j, p.xtx.At(i, j)-(explained.At(i, j)+explained.At(j, i))/2)
		}
	}
	return rest
}

// optimum finds the relative standard deviations of the random intercepts. A variance that is as
// good at zero is zero.
func (p *products) optimum() ([]float64, error) {
	if len(p.sizes) == 0 {
		return nil, nil
	}
	problem := optimize.Problem{Func: func(theta []float64) float64 {
		s, ok := p.solve(theta)
		if !ok {
			return math.Inf(1)
		}
		return s.profiled(p.observations)
	}}
	best, least := []float64(nil), math.Inf(1)
	for _, start := range []float64{1, 0.1} { // the surface may have more than one valley
		found, err := optimize.Minimize(problem, slices.Repeat([]float64{start}, len(p.sizes)),
			&optimize.Settings{Converger: &optimize.FunctionConverge{Absolute: 1e-11, Iterations: 40}},
			&optimize.NelderMead{})
		if err == nil && found.F < least {
			best, least = found.X, found.F
		}
	}
	if best == nil {
		return nil, errors.New("the mixed model has no best fit: are all differences explained by the fixed effects?")
	}
	for f := range best {
		best[f] = math.Abs(best[f])
		without := slices.Clone(best)
		without[f] = 0
		if problem.Func(without) <= least+1e-8 {
			best = without
		}
	}
	return best, nil
}

// satterthwaite gives the degrees of freedom of each coefficient: with v its variance as a function
// of the standard deviations, 2 v^2 over the variance of v, by the delta method from the curvature
// of the likelihood. Intercepts whose variance is zero take no part. NaN where the likelihood has
// no curvature to tell.
func (p *products) satterthwaite(theta []float64, sigma float64) []float64 {
	_, k := p.ztx.Dims()
	df := slices.Repeat([]float64{math.NaN()}, k)
	n := newNeighbourhood(p, theta, sigma)
	ones := slices.Repeat([]float64{1}, len(n.at))
	curvature := mat.NewSymDense(len(n.at), nil)
	fd.Hessian(curvature, n.criterion, ones, &fd.Settings{Formula: fd.Central, Step: 1e-3})
	var factor mat.Cholesky
	if !factor.Factorize(curvature) {
		return df
	}
	for j := range k {
		v := func(scale []float64) float64 { return n.variance(scale, j) }
		gradient := mat.NewVecDense(len(n.at), fd.Gradient(nil, v, ones, &fd.Settings{Formula: fd.Central, Step: 1e-4}))
		var covariance mat.VecDense // of the scales, times the gradient, halved
		if factor.SolveVecTo(&covariance, gradient) == nil {
			df[j] = sq(v(ones)) / mat.Dot(gradient, &covariance)
		}
	}
	return df
}

// neighbourhood is the likelihood around its best, as a function of the standard deviations of the
// error and of the intercepts that are not zero, each in units of its best.
type neighbourhood struct {
	*products
	at   []float64 // the best: sigma, then theta
	free []int     // which factors vary
	n    int       // factors
}

func newNeighbourhood(p *products, theta []float64, sigma float64) neighbourhood {
	n := neighbourhood{products: p, at: []float64{sigma}, n: len(theta)}
	for f, t := range theta {
		if t > 0 {
			n.free, n.at = append(n.free, f), append(n.at, t)
		}
	}
	return n
}

func (n neighbourhood) solve(scale []float64) (s solution, sigma float64, ok bool) {
	theta := make([]float64, n.n)
	for k, f := range n.free {
		theta[f] = n.at[1+k] * scale[1+k]
	}
	s, ok = n.products.solve(theta)
	return s, n.at[0] * scale[0], ok
}

// criterion is -2 times the restricted log-likelihood.
func (n neighbourhood) criterion(scale []float64) float64 {
	s, sigma, ok := n.solve(scale)
	if !ok {
		return math.NaN()
	}
	return s.at(sigma, n.observations)
}

// variance is that of the estimate of coefficient j.
func (n neighbourhood) variance(scale []float64, j int) float64 {
	s, sigma, ok := n.solve(scale)
	if !ok {
		return math.NaN()
	}
	return sq(sigma) * s.variance.At(j, j)
}

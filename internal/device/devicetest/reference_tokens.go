package devicetest

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

// eachAttention calls f for each pair of tokens (i, j) of one head of one group, with where their
// weight stands in p, and the first elements and number of their columns in q, k and v.
func eachAttention(s device.AttentionSpec, f func(weight, i, j, columns int)) {
	columns := s.Columns / s.Heads
	for g := range s.Groups {
		for h := range s.Heads {
			for i := range s.Rows {
				for j := range s.Rows {
					f(((g*s.Heads+h)*s.Rows+i)*s.Rows+j, (g*s.Rows+i)*s.Columns+h*columns, (g*s.Rows+j)*s.Columns+
						h*columns, columns)
				}
			}
		}
	}
}

func (reference) Attention(s device.AttentionSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		rows := device.Shape{s.Groups * s.Heads * s.Rows, s.Rows}
		scores := make(values, rows.Elements())
		eachAttention(s, func(weight, i, j, columns int) {
			for c := range columns {
				scores[weight] += in[0][i+c] * in[1][j+c] / math.Sqrt(float64(columns))
			}
		})
		for row := range rows[0] {
			copy(out[1][row*s.Rows:], softmax(scores, rows, row, 0))
		}
		clear(out[0])
		eachAttention(s, func(weight, i, j, columns int) {
			for c := range columns {
				out[0][i+c] += out[1][weight] * in[2][j+c]
			}
		})
	}), s.Check()
}

func (reference) AttentionGrad(s device.AttentionSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		q, k, v, p, dy := in[0], in[1], in[2], in[3], in[4]
		dp, ds := make(values, len(p)), values{}
		eachAttention(s, func(weight, i, j, columns int) {
			for c := range columns {
				dp[weight] += dy[i+c] * v[j+c]
			}
		})
		for at := 0; at < len(p); at += s.Rows {
			ds = append(ds, softmaxGrad(p[at:at+s.Rows], dp[at:at+s.Rows])...)
		}
		for _, d := range out {
			clear(d)
		}
		eachAttention(s, func(weight, i, j, columns int) {
			score := ds[weight] / math.Sqrt(float64(columns))
			for c := range columns {
				out[0][i+c] += score * k[j+c]
				out[1][j+c] += score * q[i+c]
				out[2][j+c] += p[weight] * dy[i+c]
			}
		})
	}), s.Check()
}

// choices returns, for each row that has a right answer, the softmax of its logits and that of the
// right answers alone; nil for others.
func choices(s device.ChoiceSpec, logits, right values) (all, among []values) {
	for row := range s.Rows {
		masked, found := make(values, s.Columns), false
		for c := range masked {
			masked[c] = math.Inf(-1)
			if right[row*s.Columns+c] != 0 {
				masked[c], found = logits[row*s.Columns+c], true
			}
		}
		if !found {
			all, among = append(all, nil), append(among, nil)
			continue
		}
		all = append(all, softmax(logits, device.Shape{s.Rows, s.Columns}, row, 0))
		among = append(among, softmax(masked, device.Shape{1, s.Columns}, 0, 0))
	}
	return all, among
}

func (reference) ChoiceLoss(s device.ChoiceSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		clear(out[1])
		loss, count := 0.0, 0.0
		all, _ := choices(s, in[0], in[1])
		for row, p := range all {
			if p == nil {
				continue
			}
			right, wrong := 0.0, 0.0
			for c, x := range p {
				if in[1][row*s.Columns+c] != 0 {
					right += x
				} else {
					wrong += x
				}
			}
			if wrong < 0.5 { // so that it is 0 where no answer is wrong
				loss -= math.Log1p(-wrong)
			} else {
				loss -= math.Log(right)
			}
			count++
		}
		out[0][0], out[1][0], out[1][2] = loss/max(1, count), loss/max(1, count), count
	}), s.Check()
}

func (reference) ChoiceLossGrad(s device.ChoiceSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		clear(out[0])
		all, among := choices(s, in[0], in[1])
		for row, p := range all {
			for c, x := range p {
				out[0][row*s.Columns+c] = in[3][0] / max(1, in[2][2]) * (x - among[row][c])
			}
		}
	}), s.Check()
}

package mpi

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// watch is the line between rank 0 and each other rank, over TCP. On it each side says every few
// seconds that it is alive, so that a rank that has stopped, or a host that is gone, is noticed:
// the others would wait in MPI for ever. A rank that fails says so, and rank 0 speaks for all.
type watch struct {
	world    *World
	patience time.Duration // how long a rank may be silent
	token    string        // that keeps out whoever is no rank of this job
	listener net.Listener  // of rank 0
	lines    []*line       // by rank: those to all others for rank 0, that to rank 0 for the others

	mutex   sync.Mutex
	pulse   time.Time     // when this rank last said that it is there
	stopped time.Duration // how long it did not run, if that was long
	woken   time.Time     // when it ran again
	leaving bool          // nothing is a failure any more
	own     bool          // this rank fails by itself, and ends so
	other   *rankFailure  // another rank's, the first that was heard of
	heard   chan struct{} // closed when there is one
	print   func(rank int, f Failure)
}

// A rankFailure is a failure and the rank whose it is.
type rankFailure struct {
	rank    int
	failure Failure
}

// A line is a connection to another rank. One that could not be made is nil.
type line struct {
	net.Conn
	writing sync.Mutex
}

// message is what goes over a line, in JSON.
type message struct {
	Token string `json:"token,omitempty"` // the first one, of a rank
	Rank  int    `json:"rank,omitempty"`
	// the job ends; of a rank, or what rank 0 has decided
	Failure *Failure `json:"failure,omitempty"`
	Of      int      `json:"of,omitempty"`  // whose failure that is
	Bye     bool     `json:"bye,omitempty"` // the sender leaves because all is done
}

// The variable that says how long a rank may be silent before the job ends, and what it is without.
const (
	PatienceVariable = "VOXSAW_MPI_TIMEOUT"
	defaultPatience  = 30 * time.Second
)

// How long the ranks try to connect when a job starts, and how long rank 0 waits for an error of
// its own, which counts more, when it hears of another rank's.
const (
	connecting = 10 * time.Second
	grace      = time.Second
)

// patienceOf reads the variable that says how long a rank may be silent.
func patienceOf(text string) (time.Duration, error) {
	if text == "" {
		return defaultPatience, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		return 0, fmt.Errorf("%s is %q: want a time of a second or more, such as 30s", PatienceVariable, text)
	}
	return d, nil
}

// CheckPatience is an error where [PatienceVariable] is no time.
func CheckPatience() error {
	_, err := patienceOf(os.Getenv(PatienceVariable))
	return err
}

// newWatch connects every rank with rank 0. Every rank calls it.
func (w *World) newWatch(patience time.Duration) (*watch, error) {
	v := &watch{world: w, patience: patience, lines: make([]*line, w.size), heard: make(chan struct{})}
	if w.size == 1 {
		return v, nil
	}
	var addresses []byte
	if w.rank == 0 {
		var err error
		if addresses, err = v.listen(); err != nil {
			return nil, fmt.Errorf("listening for the other ranks: %w", err)
		}
	}
	all, err := w.Gather(addresses)
	if err != nil {
		return nil, err
	}
	if w.rank == 0 {
		v.accept()
	} else {
		v.dial(strings.Split(string(all[0]), "\n"))
	}
	connected := []float32{1}
	if w.rank > 0 && v.lines[0] == nil {
		connected[0] = 0
	}
	if err := w.Sum(connected); err != nil {
		return nil, err
	}
	if int(connected[0]) < w.size {
		return nil,
			fmt.Errorf("%d of %d ranks cannot reach rank 0 (%s) over TCP, which tells whether a rank is still there: "+
				"open the network between the hosts for connections to ports above 1023",
				w.size-int(connected[0]), w.size, w.hosts[0])
	}
	return v, nil
}

// listen opens a port on rank 0 and says where the others find it: a secret, then an address a
// line.
func (v *watch) listen() ([]byte, error) {
	secret := make([]byte, 16)
	rand.Read(secret)
	v.token = hex.EncodeToString(secret)
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		return nil, err
	}
	v.listener = listener
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, err
	}
	lines := []string{v.token}
	networks, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range networks {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLinkLocalUnicast() {
			lines = append(lines, net.JoinHostPort(ip.IP.String(), port))
		}
	}
	lines = append(lines, net.JoinHostPort(v.world.hosts[0], port))
	return []byte(strings.Join(lines, "\n")), nil
}

// accept waits for all other ranks, or for the time to connect to be over.
func (v *watch) accept() {
	deadline := time.Now().Add(connecting)
	for slices.Contains(v.lines[1:], nil) && time.Now().Before(deadline) {
		v.listener.(*net.TCPListener).SetDeadline(deadline)
		c, err := v.listener.Accept()
		if err != nil {
			continue
		}
		var hello message
		c.SetReadDeadline(time.Now().Add(time.Second))
		if err := json.NewDecoder(c).Decode(&hello); err != nil || hello.Token != v.token || hello.Rank < 1 ||
			hello.Rank >= len(v.lines) || v.lines[hello.Rank] != nil {
			c.Close()
			continue
		}
		l := &line{Conn: c}
		l.send(message{Token: v.token})
		v.lines[hello.Rank] = l
	}
	v.listener.Close()
}

// dial connects a rank with rank 0, at whichever of its addresses answers with the secret.
func (v *watch) dial(lines []string) {
	v.token = lines[0]
	addresses := lines[1:]
	// a loopback address would be this host's own
	if v.world.hosts[0] != v.world.hosts[v.world.rank] {
		addresses = slices.DeleteFunc(addresses, func(a string) bool {
			host, _, err := net.SplitHostPort(a)
			ip := net.ParseIP(host)
			return err == nil && ip != nil && ip.IsLoopback()
		})
	}
	for deadline := time.Now().Add(connecting); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		for _, a := range addresses {
			c, err := net.DialTimeout("tcp", a, 2*time.Second)
			if err != nil {
				continue
			}
			l := &line{Conn: c}
			l.send(message{Token: v.token, Rank: v.world.rank})
			var answer message
			c.SetReadDeadline(time.Now().Add(connecting))
			if err := json.NewDecoder(bufio.NewReaderSize(c, 16)).Decode(&answer); err == nil &&
				answer.Token == v.token {
				v.lines[0] = l
				return
			}
			c.Close()
		}
	}
}

// send writes a message. What fails here is found out by the reader.
func (l *line) send(m message) {
	text, err := json.Marshal(m)
	if err != nil {
		return
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	l.SetWriteDeadline(time.Now().Add(5 * time.Second))
	l.Write(append(text, '\n'))
}

// start begins to watch. print tells a person of another rank's failure, and exit ends the process.
func (v *watch) start(print func(rank int, f Failure), exit func(code int)) {
	v.print = print
	v.pulse = time.Now()
	go func() {
		for {
			time.Sleep(v.patience / 10)
			v.beat()
		}
	}()
	for rank, l := range v.lines {
		if l == nil {
			continue
		}
		go func() {
			for {
				l.send(message{})
				time.Sleep(v.patience / 10)
			}
		}()
		go func() {
			f, wait := v.listenTo(rank, l)
			if f != nil && v.end(*f, wait) {
				exit(f.failure.Code)
			}
		}()
	}
}

// listenTo reads what another rank says until it says no more; nil: it has left. wait says that
// this rank may be about to fail, too.
func (v *watch) listenTo(rank int, l *line) (f *rankFailure, wait bool) {
	in := bufio.NewReader(l)
	for {
		l.SetReadDeadline(time.Now().Add(v.patience))
		text, err := in.ReadBytes('\n')
		if err != nil {
			return v.gone(rank, err), false
		}
		var m message
		switch {
		case json.Unmarshal(text, &m) != nil:
		case m.Bye:
			return nil, false
		case m.Failure != nil && v.world.rank == 0:
			return &rankFailure{rank, *m.Failure}, true
		case m.Failure != nil:
			return &rankFailure{m.Of, *m.Failure}, false
		}
	}
}

// beat says that this rank runs, and for how long it did not, if it was so long that the others may
// have given it up, and if they would have left only now: of a rank that ran again long ago they
// have not. On a busy machine every rank is late at some time.
func (v *watch) beat() (stopped time.Duration) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	now := time.Now()
	if late := now.Sub(v.pulse); late > v.patience*4/5 { // the last word may be a tenth older
		v.stopped, v.woken = late, now
	}
	v.pulse = now
	if now.Sub(v.woken) > v.patience {
		return 0
	}
	return v.stopped
}

// gone is the failure of a rank that is silent. A rank that was stopped itself has nothing to say
// of the others, which have left meanwhile.
func (v *watch) gone(rank int, err error) *rankFailure {
	if stopped := v.beat(); stopped > 0 {
		return &rankFailure{v.world.rank,
			v.ends(fmt.Sprintf("the process of rank %d did not run for %v: it was stopped, or its host was",
				v.world.rank, stopped.Round(time.Second)))}
	}
	text := "its process has ended"
	if e, ok := err.(net.Error); ok && e.Timeout() {
		text = fmt.Sprintf("nothing was heard of it for %v: it was stopped, or its host or the network is down",
			v.patience)
	}
	if rank == 0 {
		// All other ranks find that out. The first that is left says it, and the launcher ends the
		// rest.
		time.Sleep(min(time.Duration(v.world.rank-1)*grace/2, 10*grace))
	}
	return &rankFailure{rank, v.ends(text)}
}

// ends is a failure with which the job ends.
func (v *watch) ends(text string) Failure {
	return Failure{Message: "the job ends: " + text,
		Hint: "start it again with --resume: it goes on from the last checkpoint", Code: 1}
}

// end takes note of another rank's failure, tells of it, and says whether the process is to end:
// not where that is under way.
func (v *watch) end(f rankFailure, wait bool) bool {
	v.mutex.Lock()
	if v.leaving || v.other != nil {
		v.mutex.Unlock()
		return false
	}
	v.other = &f
	close(v.heard)
	own := v.own
	v.mutex.Unlock()
	if wait && !own {
		time.Sleep(grace)
		v.mutex.Lock()
		own = v.own
		v.mutex.Unlock()
	}
	if own {
		return false
	}
	v.print(f.rank, f.failure)
	v.decide(f)
	return true
}

// decide tells all other ranks, if this is rank 0, that the job ends, once that was printed: a
// launcher ends everything as soon as the first rank has gone.
func (v *watch) decide(f rankFailure) {
	if v.world.rank != 0 {
		return
	}
	for _, l := range v.lines {
		if l != nil {
			l.send(message{Failure: &Failure{Code: f.failure.Code}, Of: f.rank})
		}
	}
}

// fail implements [World.Fail].
func (v *watch) fail(f Failure, print func(rank int, f Failure)) int {
	v.mutex.Lock()
	v.own = true
	v.mutex.Unlock()
	if v.world.rank > 0 {
		if l := v.lines[0]; l != nil {
			l.send(message{Failure: &f})
			v.await()
		}
		return f.Code
	}
	ended := rankFailure{0, f}
	if f.Message == "" && v.await() {
		ended = *v.other
	}
	print(ended.rank, ended.failure)
	v.decide(ended)
	return ended.failure.Code
}

// await waits for another rank's failure: for rank 0, the one that has made this one fail; for the
// others, rank 0's word that the job ends.
func (v *watch) await() bool {
	select {
	case <-v.heard:
		return true
	case <-time.After(v.patience):
		return false
	}
}

// close says goodbye.
func (v *watch) close() {
	v.mutex.Lock()
	v.leaving = true
	v.mutex.Unlock()
	for _, l := range v.lines {
		if l != nil {
			l.send(message{Bye: true})
		}
	}
}

// Package viewer is a page in the browser of the machine that it runs on: curves of a training,
// cases with their label maps, drawn by NiiVue.
//
// Start at [Serve]. Nothing but this page gets anything: the address has a token that nobody can
// guess, requests of other pages and for other names of the machine are refused, and the page may
// load nothing from elsewhere. NiiVue lies here as npm has it (niivue.sh fetches it); the page is
// page.html, and page.js what it does.
package viewer

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

var (
	//go:embed page.html
	page []byte
	//go:embed page.js
	script []byte
	//go:embed niivue.js.gz
	niivue []byte
	//go:embed niivue-licenses.txt
	licences []byte
)

// A Site is what there is to see.
type Site struct {
	Title string
	Cases []Case // in the order of the table
	// Curves writes a page of curves as they are now; nil: there are none.
	Curves func(io.Writer) error
	// Failed is told why a volume of a case could not be shown; nil: the page alone is.
	Failed func(name string, err error)
}

// A Case is a scan with what was found in it. What is nil is not there.
type Case struct {
	Name, Text            string // Text stands beside it in the table, such as its DSC
	Path                  string // where the scan lies, for another program
	PredictionPath        string // where the prediction lies, which another program may correct
	Scan                  func() (*volume.Volume, error)
	Window                [2]float64 // shown from black to white; both 0: as the scan has it
	Prediction, Reference func() (*volume.LabelMap, error)
	Labels                map[uint16]string
}

// listed is a case as page.js reads it.
type listed struct {
	Name       string            `json:"name"`
	Text       string            `json:"text"`
	Path       string            `json:"path"`
	Predicted  string            `json:"prediction_path"`
	Window     [2]float64        `json:"window"`
	Prediction bool              `json:"prediction"`
	Reference  bool              `json:"reference"`
	Labels     map[uint16]string `json:"labels"`
}

// Serve shows a site on a port of the loopback interface, 0 for any that is free, until the context
// ends. It tells the address once it listens there.
func Serve(ctx context.Context, port int, site Site, tell func(address string)) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("listening on this machine: %w", err)
	}
	token := rand.Text()
	host := listener.Addr().String()
	server := &http.Server{Handler: handler(token, site), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	tell("http://" + host + "/" + token + "/")
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// isHere says whether a host that a browser asks for is this machine, by a name that nobody else
// can have, on whatever port: an SSH tunnel may have another one at its near end. A page of a
// stranger's whose name has come to mean 127.0.0.1 asks for that name.
func isHere(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "127.0.0.1" || host == "localhost"
}

// handler answers requests below a token.
func handler(token string, site Site) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; "+
			"img-src 'self' data: blob:; connect-src 'self' blob: data:; worker-src blob:; frame-src 'self'; "+
			"frame-ancestors 'self'; base-uri 'none'; form-action 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		given, path, below := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		origin, from := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
		switch {
		case r.Method != http.MethodGet:
			http.Error(w, "this page is read only", http.StatusMethodNotAllowed)
		case !isHere(r.Host), origin != "" && origin != "http://"+r.Host, from == "cross-site", from == "same-site",
			subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1:
			http.Error(w, "nothing here: open the address that voxsaw view has printed", http.StatusForbidden)
		case !below: // the page's own links begin behind the slash, which somebody has not copied
			http.Redirect(w, r, "/"+token+"/", http.StatusTemporaryRedirect)
		default:
			site.answer(w, r, path)
		}
	})
}

// answer answers a request that may be answered.
func (s Site) answer(w http.ResponseWriter, r *http.Request, path string) {
	send := func(kind string, data []byte) {
		w.Header().Set("Content-Type", kind)
		w.Write(data) // who is gone misses nothing
	}
	switch path {
	case "":
		send("text/html; charset=utf-8", page)
	case "page.js":
		send("text/javascript", script)
	case "niivue.js":
		w.Header().Set("Content-Encoding", "gzip")
		send("text/javascript", niivue)
	case "licences.txt":
		send("text/plain; charset=utf-8", licences)
	case "site.json":
		s.list(w)
	case "curves.html":
		var text bytes.Buffer
		if s.Curves == nil {
			http.NotFound(w, r)
		} else if err := s.Curves(&text); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		} else {
			send("text/html; charset=utf-8", text.Bytes())
		}
	default:
		s.file(w, r, path)
	}
}

// list answers with what there is.
func (s Site) list(w http.ResponseWriter) {
	all := []listed{}
	for _, c := range s.Cases {
		all = append(all, listed{c.Name, c.Text, c.Path, c.PredictionPath, c.Window, c.Prediction != nil,
			c.Reference != nil, c.Labels})
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"title": s.Title, "curves": s.Curves != nil, "cases": all})
}

// file answers with a volume of a case, as NIfTI: 3/scan.nii, 3/prediction.nii, 3/reference.nii.
func (s Site) file(w http.ResponseWriter, r *http.Request, path string) {
	number, name, _ := strings.Cut(path, "/")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= len(s.Cases) {
		http.NotFound(w, r)
		return
	}
	c := s.Cases[n]
	var encode func(io.Writer) error
	switch {
	case name == "scan.nii" && c.Scan != nil:
		var v *volume.Volume
		v, err = c.Scan()
		encode = func(w io.Writer) error { return nifti.Encode(w, v) }
	case name == "prediction.nii" && c.Prediction != nil, name == "reference.nii" && c.Reference != nil:
		read := c.Prediction
		if name == "reference.nii" {
			read = c.Reference
		}
		var l *volume.LabelMap
		l, err = read()
		encode = func(w io.Writer) error { return nifti.EncodeLabels(w, l) }
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		if s.Failed != nil {
			s.Failed(c.Name, err)
		}
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := encode(w); err != nil { // the connection is broken off, which the page tells
		panic(http.ErrAbortHandler)
	}
}

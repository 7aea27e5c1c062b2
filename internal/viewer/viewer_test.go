package viewer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

func site() (Site, *volume.LabelMap) {
	g := volume.Grid{Shape: [3]int{3, 2, 2}, Affine: volume.Scaling([3]float64{1, 2, 3})}
	v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
	l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
	v.Int16[5], l.Labels[7] = -1000, 300
	return Site{Title: "run <1>", Curves: func(w io.Writer) error { _, err := io.WriteString(w, "curves"); return err },
		Cases: []Case{{Name: "case_1", Text: "DSC 0.5", Scan: func() (*volume.Volume, error) { return v, nil },
			Reference: func() (*volume.LabelMap, error) { return l, nil }}}}, l
}

// Who lacks the token, comes from another page, or calls the machine by another name, gets nothing.
func TestOnlyItsOwnPageIsAnswered(t *testing.T) {
	s, _ := site()
	const host = "127.0.0.1:4000"
	h := handler("SECRET", s)
	ask := func(method, path string, change func(*http.Request)) int {
		r := httptest.NewRequest(method, "http://"+host+path, nil)
		if change != nil {
			change(r)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK && strings.Contains(w.Body.String(), "case_1") {
			t.Errorf("%s %s is refused with the case's name", method, path)
		}
		if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: without a policy", path)
		}
		return w.Code
	}
	header := func(key, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(key, value) }
	}
	for _, path := range []string{"/SECRET/", "/SECRET/page.js", "/SECRET/niivue.js", "/SECRET/site.json",
		"/SECRET/curves.html", "/SECRET/licences.txt", "/SECRET/0/scan.nii", "/SECRET/0/reference.nii"} {
		if code := ask(http.MethodGet, path, header("Origin", "http://"+host)); code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
		for what, change := range map[string]func(*http.Request){
			"another origin": header("Origin", "https://elsewhere.example"), "no origin": header("Origin", "null"),
			"another port": header("Origin", "http://127.0.0.1:4001"), "another site": header("Sec-Fetch-Site",
				"cross-site"),
			"another port's page": header("Sec-Fetch-Site", "same-site"),
			"another name":        func(r *http.Request) { r.Host = "elsewhere.example:4000" },
			"a name like its own": func(r *http.Request) { r.Host = "localhost.elsewhere.example:4000" },
			"another token":       func(r *http.Request) { r.URL.Path = strings.Replace(path, "SECRET", "SECREU", 1) },
			"no token":            func(r *http.Request) { r.URL.Path = strings.TrimPrefix(path, "/SECRET") },
		} {
			if code := ask(http.MethodGet, path, change); code != http.StatusForbidden {
				t.Errorf("%s, %s: %d", path, what, code)
			}
		}
		for _, near := range []string{"localhost:4000", "127.0.0.1:8080", "localhost"} {
			// as of a tunnel
			if code := ask(http.MethodGet, path, func(r *http.Request) {
				r.Host = near
				r.Header.Set("Origin", "http://"+near)
			}); code != http.StatusOK {
				t.Errorf("%s, as %s: %d", path, near, code)
			}
		}
		if code := ask(http.MethodPost, path, nil); code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, code)
		}
	}
	for _, path := range []string{"/SECRET/1/scan.nii", "/SECRET/-1/scan.nii", "/SECRET/0/prediction.nii",
		"/SECRET/0/../../viewer.go", "/SECRET/viewer.go"} {
		if code := ask(http.MethodGet, path, nil); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// An address whose last slash was not copied leads to the page, and to nobody who lacks the token.
func TestTheLastSlashMayBeMissing(t *testing.T) {
	s, _ := site()
	server := httptest.NewServer(nil)
	defer server.Close()
	server.Config.Handler = handler("SECRET", s)
	for path, want := range map[string]int{"/SECRET": http.StatusOK, "/SECREU": http.StatusForbidden,
		"/": http.StatusForbidden, "": http.StatusForbidden} {
		answer, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%q: %d, want %d", path, answer.StatusCode, want)
		}
		if at := answer.Request.URL.Path; want == http.StatusOK && at != "/SECRET/" {
			t.Errorf("%q leads to %s", path, at)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "http://"+server.Listener.Addr().String()+"/SECRET", nil)
	r.Header.Set("Origin", "https://elsewhere.example")
	w := httptest.NewRecorder()
	server.Config.Handler.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || w.Header().Get("Location") != "" {
		t.Errorf("another page is led to %q: %d", w.Header().Get("Location"), w.Code)
	}
}

// What cannot be read is told to the page and to who serves it.
func TestWhatCannotBeShownIsTold(t *testing.T) {
	s, _ := site()
	var told []string
	s.Failed = func(name string, err error) { told = append(told, name+": "+err.Error()) }
	s.Cases[0].Scan = func() (*volume.Volume, error) { return nil, errors.New("a.nii.gz: is truncated") }
	h := handler("SECRET", s)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:4000/SECRET/0/scan.nii", nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "is truncated") {
		t.Errorf("the page is told %d, %q", w.Code, w.Body)
	}
	if want := []string{"case_1: a.nii.gz: is truncated"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// What is served is what lies in the case, and the server ends with its context.
func TestServe(t *testing.T) {
	s, want := site()
	ctx, cancel := context.WithCancel(t.Context())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- Serve(ctx, 0, s, func(a string) { address <- a }) }()
	base := <-address
	if !strings.HasPrefix(base, "http://127.0.0.1:") {
		t.Errorf("listens at %s", base)
	}
	get := func(path string) []byte {
		t.Helper()
		answer, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		data, err := io.ReadAll(io.LimitReader(answer.Body, 1<<24))
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d, %v", path, answer.StatusCode, err)
		}
		return data
	}
	var list struct {
		Title string
		Cases []struct {
			Name                  string
			Reference, Prediction bool
		}
	}
	if err := json.Unmarshal(get("site.json"), &list); err != nil {
		t.Fatal(err)
	}
	if c := list.Cases[0]; list.Title != "run <1>" || c.Name != "case_1" || !c.Reference || c.Prediction {
		t.Errorf("%+v", list)
	}
	if !strings.Contains(string(get("niivue.js")), "niivue") {
		t.Error("niivue.js is not NiiVue")
	}
	path := filepath.Join(t.TempDir(), "l.nii")
	if err := os.WriteFile(path, get("0/reference.nii"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := nifti.ReadLabels(path); err != nil || !slices.Equal(l.Labels, want.Labels) || l.Affine != want.Affine {
		t.Errorf("the label map is another one: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

package cli_test

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/tools/clientcmd"

	"kops.local/kops"
	"kops.local/kops/fakecloud"
	"kops.local/kops/internal/cli"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/store/clusterstore/leasetest"
	"kops.local/kops/internal/test/testkeys"
)

// TestSessions runs the scripts of testdata/script: whole sessions of the command line in this
// process, with an in-memory platform and a folder as state store. In addition to the commands of
// testscript, a script has
//
//	kops ARG... [<FILE]   a command line, which must succeed unless preceded by !
//	code N                the exit code of the last command line
//	clock DURATION        lets time pass, as a waiting command does; it stands still otherwise
//	world [lose ADDRESS]  lists what exists on the platform, or removes something
//	remember, unchanged   compares the state store with its earlier state
//	nosecrets DIR...      no file there contains a secret of the state store
//	credentials FILE USER prints the contents of a kubeconfig's certificate
//	apiserver CLUSTER DIR an API server of the cluster, with the objects in a folder
//	machine start|stop|report|console NAME [FILE]  what a machine does, or reports about its start
//
// Standard error has $WORK for the folder of the script.
func TestSessions(t *testing.T) {
	facts, scripts := absolute(t, "../../testdata/facts/goldens.yaml"), absolute(t, "testdata/script")
	testscript.RunT(inTurn{t}, testscript.Params{
		Dir: scripts,
		Setup: func(e *testscript.Env) error {
			s := newSession(e.WorkDir)
			e.Values[worldOf{}] = s
			e.Defer(func() { t.Chdir(t.TempDir()) }) // so that the folder of the script can be removed
			e.Vars = append(e.Vars, "KOPS_STATE_STORE=./state", "HOME="+s.home, "FACTS="+facts)
			return os.MkdirAll(s.home, 0o755)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"kops":  func(ts *testscript.TestScript, neg bool, args []string) { sessionOf(ts).kops(t, ts, neg, args) },
			"code":  func(ts *testscript.TestScript, _ bool, args []string) { sessionOf(ts).checkCode(ts, args) },
			"clock": func(ts *testscript.TestScript, _ bool, args []string) { sessionOf(ts).pass(ts, args) },
			"world": func(ts *testscript.TestScript, _ bool, args []string) { sessionOf(ts).showWorld(ts, args) },
			"remember": func(ts *testscript.TestScript, _ bool, _ []string) {
				sessionOf(ts).remembered = sessionOf(ts).state(ts)
			},
			"unchanged":   func(ts *testscript.TestScript, neg bool, _ []string) { sessionOf(ts).compare(ts, neg) },
			"nosecrets":   func(ts *testscript.TestScript, _ bool, args []string) { noSecrets(ts, args) },
			"credentials": func(ts *testscript.TestScript, _ bool, args []string) { credentials(ts, args) },
			"apiserver":   func(ts *testscript.TestScript, _ bool, args []string) { sessionOf(ts).serveAPI(ts, args) },
			"machine":     func(ts *testscript.TestScript, _ bool, args []string) { sessionOf(ts).machine(ts, args) },
		},
	})
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	out, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// inTurn runs scripts sequentially, because each changes the working directory.
type inTurn struct{ *testing.T }

func (inTurn) Parallel()     {}
func (inTurn) Verbose() bool { return testing.Verbose() }
func (t inTurn) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(inTurn{t}) })
}

// worldOf is the key of the session in the values of a script.
type worldOf struct{}

// session is the world of one script.
type session struct {
	home       string
	clock      *leasetest.Clock
	world      *fakecloud.World
	lastCode   int
	remembered map[string]string
	newKey     func() (crypto.Signer, error)
}

func newSession(dir string) *session {
	return &session{home: filepath.Join(dir, "home"), clock: newClock(), world: fakecloud.New(), newKey: testkeys.Source()}
}

func newClock() *leasetest.Clock { return leasetest.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) }

func sessionOf(ts *testscript.TestScript) *session { return ts.Value(worldOf{}).(*session) }

func (s *session) kops(t *testing.T, ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(".")
	t.Chdir(dir)
	t.Setenv("TMPDIR", t.TempDir()) // an editor's leftovers are removed with the test
	var in []byte
	if n := len(args); n > 0 && strings.HasPrefix(args[n-1], "<") {
		in, args = []byte(ts.ReadFile(args[n-1][1:])), args[:n-1]
	}
	var out, errs bytes.Buffer
	s.lastCode = s.run(t, in, &out, &errs, ts.Getenv, args)
	fmt.Fprint(ts.Stdout(), out.String())
	fmt.Fprint(ts.Stderr(), strings.ReplaceAll(errs.String(), ts.Getenv("WORK"), "$WORK"))
	if neg == (s.lastCode == 0) {
		ts.Fatalf("exit code %d", s.lastCode)
	}
}

// run is one run of the program.
func (s *session) run(t *testing.T, in []byte, out, errs *bytes.Buffer, env func(string) string, args []string) int {
	return cli.Run(t.Context(), shell.System{
		In: bytes.NewReader(in), Interactive: in != nil, Out: out, Err: errs, Env: env, Home: s.home, Cache: filepath.Join(s.home, ".cache", "kops"),
		User: "jane", Host: "laptop", PID: 42, Now: s.clock.Now, Sleep: s.clock.Sleep, NewKey: s.newKey, Version: "1.37.0",
		Clouds: []kops.Provider{s.world.Provider()},
	}, args)
}

func (s *session) checkCode(ts *testscript.TestScript, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if s.lastCode != want {
		ts.Fatalf("exit code %d, want %d", s.lastCode, want)
	}
}

func (s *session) pass(ts *testscript.TestScript, args []string) {
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	s.clock.Pass(d)
}

func (s *session) showWorld(ts *testscript.TestScript, args []string) {
	if len(args) == 2 && args[0] == "lose" && !s.world.Lose(args[1]) {
		ts.Fatalf("%s does not exist", args[1])
	}
	if len(args) == 2 && args[0] == "network" {
		s.world.AddNetwork(args[1], "10.0.0.0/8")
	}
	fmt.Fprint(ts.Stdout(), strings.Join(append(s.world.Objects(), ""), "\n"))
}

func (s *session) compare(ts *testscript.TestScript, neg bool) {
	if files := differentFiles(s.remembered, s.state(ts)); neg == (len(files) == 0) {
		ts.Fatalf("changed in the state store: %v", files)
	}
}

// state returns every file of the state store with its content.
func (s *session) state(ts *testscript.TestScript) map[string]string {
	files, err := tree(ts.MkAbs("state"))
	ts.Check(err)
	return files
}

// tree returns every file below a folder, which need not exist, by its path below it: its mode and
// content. A lease without a holder is left out.
func tree(dir string) (map[string]string, error) {
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if d.Name() != "lease" || !bytes.Contains(data, []byte(`"free": true`)) {
			rel, _ := filepath.Rel(dir, path) // it is below dir
			out[rel] = fmt.Sprintf("%s %s", info.Mode(), data)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return out, err
}

// differentFiles lists the files that are in only one of the maps, or differ.
func differentFiles(a, b map[string]string) []string {
	var out []string
	for _, m := range []map[string]string{a, b} {
		for path := range m {
			if a[path] != b[path] && !slices.Contains(out, path) {
				out = append(out, path)
			}
		}
	}
	slices.Sort(out)
	return out
}

// credentials prints the contents of a user's certificate, and whether the key matches it.
func credentials(ts *testscript.TestScript, args []string) {
	c, err := clientcmd.LoadFromFile(ts.MkAbs(args[0]))
	ts.Check(err)
	user := c.AuthInfos[args[1]]
	if user == nil {
		ts.Fatalf("%s has no user %s", args[0], args[1])
	}
	block, _ := pem.Decode(user.ClientCertificateData)
	if block == nil {
		ts.Fatalf("%s has no certificate", args[1])
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	ts.Check(err)
	ca, _ := pem.Decode(c.Clusters[args[1]].CertificateAuthorityData)
	parsed, err := x509.ParseCertificate(ca.Bytes)
	ts.Check(err)
	ts.Check(cert.CheckSignatureFrom(parsed))
	if _, err := clientcmd.NewDefaultClientConfig(*c, nil).ClientConfig(); err != nil {
		ts.Fatalf("kubectl could not use %s: %v", args[0], err)
	}
	fmt.Fprintf(ts.Stdout(), "name %s\ngroup %s\nends %s\n", cert.Subject.CommonName, cert.Subject.Organization[0], cert.NotAfter.UTC().Format(time.RFC3339))
}

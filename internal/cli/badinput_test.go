package cli_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what bad input gets into testdata/badinput")

// TestBadInput runs the cases of testdata/badinput: each is a command line that cannot succeed, in
// a folder with these files, and its output.
//
//	state         with a.example.com, on AWS and never applied, and b.example.com, applied
//	a.yaml        the objects of a.example.com; new.yaml the same for a new c.example.com,
//	              one.yaml only its Cluster
//	group.yaml    a group that a.example.com does not have
//	facts.yaml    the facts of AWS; key.pub an SSH public key
//
// Before it runs kops, a case may change files, with a regular expression that must match; write
// and remove files; and set variables. Whatever kops reports, it must not panic, must print nothing
// to standard output, and must leave every file unchanged; a lease that it took and released does
// not count.
func TestBadInput(t *testing.T) {
	b := newBench(t)
	files, err := filepath.Glob("testdata/badinput/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = absolute(t, files[i])
	}
	b.enter()
	cases := 0
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(a.Files); i += 2 {
			ask, says := a.Files[i], &a.Files[i+1]
			if says.Name != "says" {
				t.Fatalf("%s: %s is followed by %s, not by what it says", file, ask.Name, says.Name)
			}
			cases++
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+ask.Name, func(t *testing.T) {
				got := clouds.ReplaceAllString(b.run(t, string(ask.Data)), "$$CLOUDS") // whichever exist
				if *update {
					says.Data = []byte(got)
				} else if diff := cmp.Diff(string(says.Data), got); diff != "" {
					t.Errorf("says something else (-want +got):\n%s", diff)
				}
			})
		}
		if *update {
			if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if cases < 60 {
		t.Errorf("there are %d cases, and 60 at least are wanted", cases)
	}
}

// clouds matches the list of clouds in a message.
var clouds = regexp.MustCompile(`fake, aws(, \w+)* or \w+`)

// bench is the folder in which the cases run, and its files.
type bench struct {
	t       *testing.T
	session *session
	dir     string
	files   map[string]string
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir(), files: map[string]string{}}
	b.session = newSession(b.dir)
	facts, err := os.ReadFile("../../testdata/facts/goldens.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b.files["facts.yaml"] = string(facts)
	b.files["key.pub"] = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q jane@laptop\n"
	b.files["group.yaml"] = "apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nmetadata:\n  name: workers\n  labels:\n    kops.k8s.io/cluster: a.example.com\n" +
		"spec:\n  role: Node\n  machineType: t3.medium\n  minSize: 1\n  maxSize: 2\n  subnets:\n  - us-test-1a\n"
	return b
}

// enter changes to the folder and fills the state store.
func (b *bench) enter() {
	b.t.Chdir(b.dir)
	b.restore()
	dry := strings.Fields("create cluster --cloud aws --zones us-test-1a,us-test-1b --facts facts.yaml --dry-run -o yaml --set spec.configBase=s3://kops-files/example.com")
	b.files["a.yaml"], b.files["new.yaml"] = b.must(append(dry, "a.example.com")...), b.must(append(dry, "c.example.com")...)
	b.files["one.yaml"], _, _ = strings.Cut(b.files["new.yaml"], "---")
	b.restore()
	b.must("create", "-f", "a.yaml")
	b.must("create", "cluster", "--cloud", "fake", "--zones", "here", "--yes", "b.example.com")
	if err := os.RemoveAll(filepath.Join(b.session.home, ".kube")); err != nil {
		b.t.Fatal(err)
	}
}

// restore writes the files in their initial state.
func (b *bench) restore() {
	for name, text := range b.files {
		b.write(b.t, name, text)
	}
}

func (b *bench) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) must(args ...string) string {
	b.t.Helper()
	var out, errs bytes.Buffer
	if code := b.session.run(b.t, nil, &out, &errs, b.env(nil), args); code != 0 {
		b.t.Fatalf("kops %v: exit %d\n%s", args, code, &errs)
	}
	return out.String()
}

func (b *bench) env(more map[string]string) func(string) string {
	base := map[string]string{"KOPS_STATE_STORE": "file://" + b.dir + "/state", "EDITOR": "false",
		"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing", "AWS_REGION": "us-test-1"}
	return func(k string) string {
		if v, ok := more[k]; ok {
			return v
		}
		return base[k]
	}
}

// run runs one case and returns its exit code and output.
func (b *bench) run(t *testing.T, script string) string {
	t.Helper()
	touched, env := map[string]string{}, map[string]string{}
	defer b.undo(t, touched)
	for line := range strings.SplitSeq(strings.TrimSpace(script), "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		name, text, _ := strings.Cut(rest, " ")
		switch verb {
		case "change", "write":
			old, _ := os.ReadFile(name) // an absent file is created
			if _, seen := touched[name]; !seen {
				touched[name] = string(old)
			}
			if verb == "change" {
				text = substitute(t, string(old), text)
			}
			b.write(t, name, strings.ReplaceAll(text, `\n`, "\n"))
		case "remove":
			old, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			touched[name] = string(old)
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		case "env":
			k, v, _ := strings.Cut(rest, "=")
			env[k] = v
		case "kops":
			return b.kops(t, env, words(rest))
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	t.Fatal("the case runs nothing")
	return ""
}

// undo reverts what a case changed.
func (b *bench) undo(t *testing.T, touched map[string]string) {
	for name, old := range touched {
		if old != "" {
			b.write(t, name, old)
		} else if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// substitute applies s/regexp/replacement/, whose delimiter is the character after s.
func substitute(t *testing.T, text, how string) string {
	t.Helper()
	parts := strings.Split(how[1:], how[1:2])
	if len(parts) != 4 {
		t.Fatalf("%q is not s/regexp/replacement/", how)
	}
	re := regexp.MustCompile("(?m)" + parts[1])
	at := re.FindStringSubmatchIndex(text)
	if at == nil {
		t.Fatalf("%q matches nothing of:\n%s", parts[1], text)
	}
	return text[:at[0]] + string(re.ExpandString(nil, parts[2], text, at)) + text[at[1]:]
}

// words splits a command line; double quotes group words.
func words(line string) []string {
	var out []string
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

func (b *bench) kops(t *testing.T, env map[string]string, args []string) string {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("panic: %v", r)
		}
	}()
	before, world := b.allFiles(t), b.session.world.Objects()
	b.session.clock = newClock()
	var out, errs bytes.Buffer
	code := b.session.run(t, nil, &out, &errs, b.env(env), args)
	if code == 0 {
		t.Errorf("it succeeds, and says\n%s", &out)
	}
	if out.Len() > 0 {
		t.Errorf("it prints\n%s", &out)
	}
	for _, file := range differentFiles(before, b.allFiles(t)) {
		t.Errorf("%s was changed", file)
	}
	if !slices.Equal(world, b.session.world.Objects()) {
		t.Errorf("the platform was changed: %v", b.session.world.Objects())
	}
	text := strings.ReplaceAll(errs.String(), b.dir, "$WORK")
	text = regexp.MustCompile(`use one of (\w+://(, )?)+`).ReplaceAllString(text, "use one of SCHEMES")
	if said, usage, ok := strings.Cut(text, "\nUsage: "); ok {
		line, _, _ := strings.Cut(strings.TrimSpace(usage), "\n")
		text = said + "\n(usage: " + line + ")\n"
	}
	return fmt.Sprintf("%s[exit %d]\n", text, code)
}

// allFiles returns every file of the folder except caches, by path.
func (b *bench) allFiles(t *testing.T) map[string]string {
	t.Helper()
	files, err := tree(".")
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(files, func(path, _ string) bool { return strings.HasPrefix(path, "home/.cache/") })
	return files
}

// TestAStoreThatMayNotBeRead needs a user who is subject to permissions.
func TestAStoreThatMayNotBeRead(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("RUN AS ROOT, WHOM NO PERMISSION STOPS: that a store which may not be read is told of was not tested")
	}
	b := newBench(t)
	b.enter()
	for _, mode := range []os.FileMode{0o000, 0o500} {
		if err := os.Chmod("state", mode); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		code := b.session.run(t, nil, &out, &errs, b.env(nil), []string{"create", "-f", "new.yaml"})
		if err := os.Chmod("state", 0o755); err != nil {
			t.Fatal(err)
		}
		if code != 1 || !strings.Contains(errs.String(), "permission denied") {
			t.Errorf("mode %v: exit %d, %s", mode, code, &errs)
		}
	}
}

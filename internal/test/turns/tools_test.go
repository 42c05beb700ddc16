package turns

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// repository is a git repository with the programs that say what a run does.
type repository struct {
	*testing.T
	dir string
}

func (r repository) run(env []string, name string, args ...string) string {
	r.Helper()
	cmd := exec.CommandContext(r.Context(), name, args...)
	cmd.Dir = r.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}, env...)
	out, err := cmd.Output()
	if err != nil {
		r.Fatalf("%s %v: %v", name, args, err)
	}
	return strings.TrimSpace(string(out))
}

// commit commits a new file so many hours after the first commit.
func (r repository) commit(file string, hours int) {
	r.Helper()
	at := filepath.Join(r.dir, file)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(at, nil, 0o644); err != nil {
		r.Fatal(err)
	}
	r.run(nil, "git", "add", "-A")
	date := time.Date(2026, 8, 1, hours, 0, 0, 0, time.UTC).Format(time.RFC3339)
	r.run([]string{"GIT_AUTHOR_DATE=" + date, "GIT_COMMITTER_DATE=" + date}, "git", "commit", "-qm", file)
}

func TestRunsHaveNumbersAndKnowWhatChanged(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	r := repository{t, t.TempDir()}
	for _, name := range []string{"turn", "touched"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "tools", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(r.dir, "tools"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.dir, "tools", name), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.run(nil, "git", "init", "-q")
	r.commit("internal/platform/first/a", 0)
	r.commit("e2e/second/a", 5)
	r.commit("e2e/rehearsal/third_test.go", 7)
	r.commit("internal/platform/fourth/a", 8)
	r.commit("tools/kubernetes/fifth.go", 8)
	expect := func(r repository, want string, env []string, tool string) {
		t.Helper()
		if got := r.run(env, "tools/"+tool); got != want {
			t.Errorf("%s with %q prints %q, want %q", tool, env, got, want)
		}
	}
	expect(r, "5", nil, "turn")
	expect(r, "7", []string{"TURN=7"}, "turn")
	expect(r, "fifth fourth second third", nil, "touched")
	expect(r, "fourth fifth", []string{"TOUCHED=fourth fifth"}, "touched")
	expect(r, "", []string{"TOUCHED="}, "touched")
	expect(r, "fifth", []string{"BASE=HEAD^"}, "touched")

	// A clone with the last commit only, as CI systems make it, has another number every day.
	shallow := repository{t, filepath.Join(t.TempDir(), "clone")}
	r.run(nil, "git", "clone", "-q", "--depth", "1", "file://"+r.dir, shallow.dir)
	if day, err := strconv.Atoi(shallow.run(nil, "tools/turn")); err != nil || day < 20000 {
		t.Errorf("in a shallow clone, turn prints %d, %v", day, err)
	}
	expect(shallow, "", nil, "touched")
}

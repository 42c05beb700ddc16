package shell

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
)

func TestOptionsAreSpelledAsFlags(t *testing.T) {
	err := fault.Wrap(fault.Denied, errors.New("option:Prune needs the whole cluster; option:Nobody does not"), "leave option:Phase out")
	got := spellError(err)
	if got.Error() != "--prune needs the whole cluster; option:Nobody does not" || fault.Remedy(got) != "leave --phase out" || fault.Of(got) != fault.Denied {
		t.Errorf("%v; %s (%s)", got, fault.Remedy(got), fault.Of(got))
	}
	if spellError(nil) != nil {
		t.Error("no error is one")
	}
}

// TestEveryOptionHasAFlag checks in all sources below the command line that every option in a text
// has a flag.
func TestEveryOptionHasAFlag(t *testing.T) {
	root, flags, found := filepath.Join("..", "..", ".."), Flags(), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "internal/cli/") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, o := range option.FindAllString(string(text), -1) {
			found++
			if flags[strings.TrimPrefix(o, "option:")] == "" {
				t.Errorf("%s: %s has no flag", path, o)
			}
		}
		return err
	})
	if err != nil || found < 50 {
		t.Errorf("%d options are named: %v", found, err)
	}
}

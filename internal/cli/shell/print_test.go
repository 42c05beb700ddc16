package shell

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/escape"
	"kops.local/kops/internal/engine/render/text"
)

// Documents hold texts of others, such as the messages of a machine: they keep the values, and do not
// affect a terminal.
func TestDocumentsHaveNoControlCharacters(t *testing.T) {
	const evil = "\x1b[2J \x7f \u0085 \u009b2J \u202e \ufffe"
	group := &api.InstanceGroup{}
	group.Name, group.Annotations = "nodes", map[string]string{"a": evil}
	for _, format := range []string{JSON, YAML} {
		for what, print := range map[string]func(*App) error{
			"a value": func(a *App) error { return a.PrintAs(format, map[string]string{evil: evil}, nil) },
			"objects": func(a *App) error { return a.PrintObjects(format, group) },
			"a result": func(a *App) error {
				return a.PrintResult(format, "a", text.NewResult(time.Now), nil, errors.New(evil))
			},
		} {
			var out bytes.Buffer
			if err := print(New(System{Out: &out, Err: &out, Now: time.Now})); err != nil {
				t.Errorf("%s as %s: %v", what, format, err)
				continue
			}
			var doc any
			if err := yaml.Unmarshal(out.Bytes(), &doc); err != nil {
				t.Errorf("%s as %s: %v", what, format, err)
			}
			if got := fmt.Sprint(doc); !strings.Contains(got, evil) || bytes.ContainsFunc(out.Bytes(), escape.IsHidden) {
				t.Errorf("%s as %s: %q", what, format, &out)
			}
		}
	}
}

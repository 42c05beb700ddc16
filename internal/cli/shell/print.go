package shell

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/engine/render/text"
)

// Formats that -o takes.
const (
	Table = "table"
	YAML  = "yaml"
	JSON  = "json"
)

// CheckFormat refuses a format that is not one of the known.
func CheckFormat(format string, known ...string) error {
	if !slices.Contains(known, format) {
		return Usagef("unknown output format: %q; use %s", format, strings.Join(known, ", "))
	}
	return nil
}

// PrintTable writes rows in columns under a header, in their order. The caller sorts them
// by what they mean, as texts sort numbers, dates and durations wrongly.
func (a *App) PrintTable(header []string, rows [][]string) error {
	return printRows(tabwriter.NewWriter(a.Out, 0, 8, 1, '\t', 0), append([][]string{header}, rows...))
}

// PrintRows writes rows in columns, in their order.
func (a *App) PrintRows(rows [][]string) error {
	return printRows(tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0), rows)
}

func printRows(w *tabwriter.Writer, rows [][]string) error {
	for _, r := range rows {
		if _, err := fmt.Fprintln(w, strings.Join(r, "\t")); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return w.Flush()
}

// Minutes is a time that is only about right: whole minutes, and at least one.
func Minutes(d time.Duration) string {
	return fmt.Sprintf("%d min", max(1, (d+time.Minute-1)/time.Minute))
}

// Listed is a list in one line; beyond the most that it names, it says how many more there are.
func Listed[T any](list []T, most int) string {
	var out []string
	for _, v := range list[:min(len(list), most)] {
		out = append(out, fmt.Sprint(v))
	}
	if more := len(list) - most; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}

// PrintObjects writes API objects as v1alpha2: YAML documents, or JSON (an
// array when there are several).
func (a *App) PrintObjects(format string, objs ...api.Object) error {
	encode := compat.Encode
	if format == JSON {
		encode = compat.EncodeJSON
	}
	data, err := encode(api.V1Alpha2, objs...)
	if err != nil {
		return err
	}
	return a.printExact(data)
}

// printExact writes a document whose format escapes control characters itself.
func (a *App) printExact(doc []byte) error {
	_, err := text.Exact(a.Out).Write(doc)
	return err
}

// PrintAs writes a value as JSON or YAML, or calls table where people are to read it.
func (a *App) PrintAs(format string, v any, table func() error) error {
	switch format {
	case JSON:
		return a.PrintJSON(v)
	case YAML:
		return a.PrintYAML(v)
	}
	return table()
}

// PrintJSON writes a value as indented JSON.
func (a *App) PrintJSON(v any) error {
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	return a.printExact(append(out, '\n'))
}

// PrintYAML writes a value as YAML.
func (a *App) PrintYAML(v any) error {
	out, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("print as YAML: %w", err)
	}
	return a.printExact(out)
}

// ReadFiles returns the contents of files by name, as ReadFile does.
func (a *App) ReadFiles(names []string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, n := range names {
		data, err := a.ReadFile(n)
		if err != nil {
			return nil, err
		}
		out[n] = data
	}
	return out, nil
}

// ReadFile returns the contents of a file; "-" is the standard input.
func (a *App) ReadFile(name string) ([]byte, error) {
	if name != "-" {
		return readFile(name)
	}
	data, err := io.ReadAll(a.In)
	if err != nil {
		return nil, fmt.Errorf("read the standard input: %w", err)
	}
	return data, nil
}

func readFile(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	return data, nil
}

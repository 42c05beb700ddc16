package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/engine/await"
	"kops.local/kops/internal/engine/escape"
	"kops.local/kops/internal/engine/escape/yamltext"
	"kops.local/kops/internal/engine/render/text"
	"kops.local/kops/internal/spec/diag"
)

// Formats that -o takes.
const (
	Table = "table"
	YAML  = "yaml"
	JSON  = "json"
)

// CheckFormat rejects a format that is not one of the known ones.
func CheckFormat(format string, known ...string) error {
	if !slices.Contains(known, format) {
		return Usagef("unknown output format: %q; use %s", format, diag.Or(known))
	}
	return nil
}

// PrintTable writes rows in columns under a header, in order. The caller must sort them by their
// meaning, as texts sort numbers, dates and durations wrongly.
func (a *App) PrintTable(header []string, rows [][]string) error {
	return text.Table(tabwriter.NewWriter(a.Out, 0, 8, 1, '\t', 0), append([][]string{header}, rows...))
}

// PrintRows writes rows in columns, in order.
func (a *App) PrintRows(rows [][]string) error {
	return text.Table(tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0), rows)
}

// Minutes formats an approximate time: whole minutes, and at least one.
func Minutes(d time.Duration) string {
	return fmt.Sprintf("%d min", max(1, (d+time.Minute-1)/time.Minute))
}

// Listed formats a list in one line; if it has more than most items, it says how many more there
// are.
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

// PrintObjects writes API objects as v1alpha2: YAML documents, or JSON (an array if there are
// several).
func (a *App) PrintObjects(format string, objs ...api.Object) error {
	if format == JSON {
		data, err := compat.EncodeJSON(api.V1Alpha2, objs...)
		if err != nil {
			return err
		}
		return a.printRawJSON(data)
	}
	data, err := compat.Encode(api.V1Alpha2, objs...)
	if err != nil {
		return err
	}
	return a.printExact(data)
}

// printExact writes a document in which control characters are escaped.
func (a *App) printExact(doc []byte) error {
	_, err := text.Exact(a.Out).Write(doc)
	return err
}

// printRawJSON writes a JSON document, and escapes its control characters.
func (a *App) printRawJSON(doc []byte) error { return a.printExact(escape.JSON(doc)) }

// PrintAs writes a value as JSON or YAML, or calls table for output to people.
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
	return a.printRawJSON(append(out, '\n'))
}

// PrintYAML writes a value as YAML.
func (a *App) PrintYAML(v any) error {
	out, err := yamltext.Marshal(v)
	if err != nil {
		return fmt.Errorf("print as YAML: %w", err)
	}
	return a.printExact(out)
}

// ReadFiles returns the contents of files by name, as ReadFile does.
func (a *App) ReadFiles(ctx context.Context, names []string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, n := range names {
		data, err := a.ReadFile(ctx, n)
		if err != nil {
			return nil, err
		}
		out[n] = data
	}
	return out, nil
}

// fileSize limits a file that is read whole, in bytes.
const fileSize = 64 << 20

// ReadFile returns the contents of a file; "-" is the standard input, which is read once. The end
// of ctx is an error.
func (a *App) ReadFile(ctx context.Context, name string) ([]byte, error) {
	if name != "-" {
		return readFile(ctx, name)
	}
	if a.inputRead {
		return nil, errors.New("the standard input can be read only once; use - for one file only")
	}
	a.inputRead = true
	if a.Interactive {
		a.Notef("Reading from the terminal; press ^D after the last line, or ^C to stop.\n")
	}
	data, err := await.Result(ctx, func() ([]byte, error) { return readAll("it", a.In) })
	if err != nil {
		return nil, fmt.Errorf("read the standard input: %w", err)
	}
	return data, nil
}

// readFile reads a file, which may be a terminal or a pipe.
func readFile(ctx context.Context, name string) ([]byte, error) {
	data, err := await.Result(ctx, func() ([]byte, error) {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return readAll(name, f)
	})
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	return data, nil
}

// readAll reads to the end, which a device such as /dev/zero does not have.
func readAll(name string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, fileSize+1))
	if len(data) > fileSize {
		return nil, fmt.Errorf("%s is longer than %d MiB", name, fileSize>>20)
	}
	return data, err
}

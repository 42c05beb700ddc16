package shell

import (
	_ "embed"
	"fmt"
	"strings"
	"text/tabwriter"
)

// Variable is an environment variable that kops reads.
type Variable struct {
	Name, Meaning, Default string
}

//go:embed environment.tsv
var variables string

// Environment lists the variables that kops reads, as shown in help and documentation. It leaves
// out variables that all tools of a platform or store read, such as AWS_PROFILE.
func Environment() []Variable {
	var all []Variable
	for line := range strings.Lines(variables) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		all = append(all, Variable{Name: fields[0], Meaning: fields[1], Default: fields[2]})
	}
	return all
}

// configurationFile describes what is read in addition to the environment.
const configurationFile = `The configuration file is ~/.kops.yaml or else ~/.kops/config; --config names another file.
It is YAML, and may hold one variable, which the environment and --state override:

    KOPS_STATE_STORE: s3://my-state-store
`

// PrintEnvironment explains the environment variables and the configuration file.
func (a *App) PrintEnvironment() error {
	a.Printf("kops reads these environment variables. Flags override them.\n\n")
	w := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
	for _, v := range Environment() {
		if _, err := fmt.Fprintf(w, "%s\t%s\n\t  default: %s\n", v.Name, v.Meaning, v.Default); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	a.Printf("\n%s", configurationFile)
	return nil
}

// EnvironmentPage returns the corresponding page of the documentation.
func EnvironmentPage() string {
	var b strings.Builder
	b.WriteString(`# Environment and configuration file

Flags override environment variables, and environment variables override the configuration file. ` + "`kops help environment`" + ` shows this list.

| variable | means | default |
|---|---|---|
`)
	for _, v := range Environment() {
		name := strings.ReplaceAll(v.Name, ", ", "`, `")
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, v.Meaning, v.Default)
	}
	b.WriteString(`
Each platform and store also reads the variables of its own tools; see [state stores](state-stores.md) and the page of your cloud.

## The configuration file

` + configurationFile)
	return b.String()
}

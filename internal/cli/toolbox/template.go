package toolbox

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	texttemplate "text/template"

	"github.com/spf13/cobra"

	"kops.local/kops/api"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/toolbox/template"
	"kops.local/kops/internal/spec/versions"
)

type templateOptions struct {
	templates, values, snippets, sets, texts []string
	out, output, configValue, channel        string
	failOnMissing, formatYAML                bool
}

func templateCommand(app *shell.App) *cobra.Command {
	var o templateOptions
	c := shell.Cobra("template", "Write objects from templates and values", `
Write objects from Go templates (text/template, with the functions of Masterminds/sprig)
and from values. --template and --snippets take files and folders, --values files of YAML
or JSON, of which later ones win and maps are merged. --set-string and then --set win over
files. A template includes a snippet by the name of its file: {{ include "nodes.json" . }}.

.clusterName is the name of the cluster, unless a value of that name is given. Versions and
images that a channel recommends are {{ ChannelRecommendedKubernetesVersion }},
{{ ChannelRecommendedKubernetesUpgradeVersion "1.35.0" }} and
{{ ChannelRecommendedImage "aws" "1.36.3" "amd64" }}.`, `
  kops toolbox template --template cluster.tmpl.yaml --values values.yaml --out cluster.yaml
  kops toolbox template --template cluster.tmpl.yaml --template groups/ --values dev.yaml --set zones={a,b}
  terraform output -json | kops toolbox template --template cluster.tmpl.yaml --values - --out cluster.yaml
  kops toolbox template --values values.yaml --config-value clusterName`,
		func(_ context.Context, _ []string) error { return o.run(app) })
	c.Args = shell.NoArguments("name templates with --template")
	f := c.Flags()
	f.StringSliceVar(&o.templates, "template", nil, "file of a template, or folder with templates; repeatable")
	f.StringSliceVar(&o.values, "values", nil, "file of values, YAML or JSON, - for the standard input; repeatable")
	f.StringSliceVar(&o.snippets, "snippets", nil, "file of a snippet, or folder with snippets; repeatable")
	f.StringArrayVar(&o.sets, "set", nil, "set values: name=value,outer.inner=value,list={a,b},list[1]=b; repeatable")
	f.StringArrayVar(&o.texts, "set-string", nil, "the same, with texts as values; repeatable")
	f.StringVar(&o.out, "out", "", "file to write, instead of the standard output")
	f.StringVar(&o.output, "output", "", "use --out")
	shell.Deprecate(c, "output", "use --out")
	f.StringVar(&o.configValue, "config-value", "", "print this value, such as clusterName or network.cidr, instead of templates")
	f.StringVar(&o.channel, "channel", versions.Stable, "channel that recommends versions and images: stable, alpha, or a file")
	f.BoolVar(&o.failOnMissing, "fail-on-missing", true, "refuse a template that uses a value which is not set")
	f.BoolVar(&o.formatYAML, "format-yaml", false, "read the output as YAML, and write it with the usual indents and order")
	return c
}

func (o *templateOptions) run(app *shell.App) error {
	if len(o.templates) == 0 && o.configValue == "" {
		return shell.Usagef("name a template with --template, or a value with --config-value")
	}
	values, err := o.merged(app)
	if err != nil {
		return err
	}
	if o.configValue != "" {
		v, ok := template.Get(values, o.configValue)
		if !ok {
			return fmt.Errorf("there is no value %s", o.configValue)
		}
		app.Printf("%v\n", v)
		return nil
	}
	text, err := o.rendered(app, values)
	if err != nil {
		return err
	}
	if out := o.out + o.output; out != "" {
		return shell.WriteText(out, text)
	}
	app.Printf("%s", text)
	return nil
}

// merged are all values, the later over the earlier.
func (o *templateOptions) merged(app *shell.App) (map[string]any, error) {
	values := map[string]any{}
	for _, file := range o.values {
		data, err := app.ReadFile(file)
		if err != nil {
			return nil, err
		}
		more, err := template.Parse(data)
		if err != nil {
			return nil, fmt.Errorf("values %s: %w", file, err)
		}
		values = template.Merge(values, more)
	}
	for _, s := range o.texts {
		if err := template.Set(values, s, true); err != nil {
			return nil, shell.Usagef("--set-string: %w", err)
		}
	}
	for _, s := range o.sets {
		if err := template.Set(values, s, false); err != nil {
			return nil, shell.Usagef("--set: %w", err)
		}
	}
	name, err := app.ExplicitName(nil)
	if _, said := values["clusterName"]; err == nil && !said && name != "" {
		values["clusterName"] = name
	}
	return values, err
}

func (o *templateOptions) rendered(app *shell.App, values map[string]any) (string, error) {
	files, err := o.files(app, o.templates)
	if err != nil {
		return "", err
	}
	parts, err := o.files(app, o.snippets)
	if err != nil {
		return "", err
	}
	snippets := map[string]string{}
	for _, f := range parts {
		name := filepath.Base(f.Name)
		if _, there := snippets[name]; there {
			return "", fmt.Errorf("two snippets are called %s, which is the name of their files; give one another name", name)
		}
		snippets[name] = f.Text
	}
	recommended, err := channelFunctions(app, o.channel)
	if err != nil {
		return "", err
	}
	text, err := template.Render(files, template.Options{Values: values, Snippets: snippets, FailOnMissing: o.failOnMissing, Functions: recommended})
	if err == nil && o.formatYAML {
		text, err = template.Format(text)
	}
	return text, err
}

// files reads files, and all files of folders in the order of their paths.
func (o *templateOptions) files(app *shell.App, paths []string) ([]template.File, error) {
	var out []template.File
	for _, p := range paths {
		names := []string{p}
		if info, err := os.Stat(p); err == nil && info.IsDir() {
			if names, err = below(p); err != nil {
				return nil, err
			}
		}
		for _, n := range names {
			data, err := app.ReadFile(n)
			if err != nil {
				return nil, err
			}
			out = append(out, template.File{Name: n, Text: string(data)})
		}
	}
	return out, nil
}

// below lists the files of a folder.
func below(dir string) (out []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the folder %s: %w", dir, err)
	}
	return out, nil
}

// channelFunctions are the functions that tell what a channel recommends, and those that
// read variables of the environment.
func channelFunctions(app *shell.App, name string) (texttemplate.FuncMap, error) {
	ch, ok := versions.Embedded(name)
	if !ok {
		data, err := app.ReadFile(name)
		if err == nil {
			ch, err = versions.Parse(data)
		}
		if err != nil {
			return nil, fmt.Errorf("channel %s: %w; use %s, %s or a file", name, err, versions.Stable, versions.Alpha)
		}
	}
	return texttemplate.FuncMap{
		"env":                                 app.Env,
		"expandenv":                           func(text string) string { return os.Expand(text, app.Env) },
		"ChannelRecommendedKubernetesVersion": func() string { return ch.NewClusterVersion(app.Version) },
		"ChannelRecommendedKubernetesUpgradeVersion": func(current string) string { return ch.UpgradeVersion(current, app.Version) },
		"ChannelRecommendedImage": func(cloud, kubernetes, arch string) (string, error) {
			v, err := versions.ParseVersion(kubernetes)
			return ch.Image(api.CloudProviderID(cloud), arch, v), err
		},
	}, nil
}

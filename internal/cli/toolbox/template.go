package toolbox

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

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
	c := shell.Cobra("template [CLUSTER]", "Write objects from templates and values", `
Write objects from templates and values. A template uses the language of Go's
text/template and the functions of Masterminds/sprig. --template, --snippets and --values
take files and folders. Later values win, and maps are merged; --set-string and then --set
win over files. A template includes a snippet by the name of its file, such as
{{ include "nodes.json" . }}.

.clusterName is the name of the cluster, unless a value of that name is set. Versions and
images that a channel recommends are {{ ChannelRecommendedKopsKubernetesVersion }},
{{ ChannelRecommendedKubernetesUpgradeVersion "1.35.0" }} and
{{ ChannelRecommendedImage .cloud "1.36.3" "amd64" }}.`, `
  kops toolbox template --template cluster.tmpl.yaml --values values.yaml --out cluster.yaml
  kops toolbox template --template cluster.tmpl.yaml --template groups/ --values dev.yaml --set zones={a,b}
  terraform output -json | kops toolbox template --template cluster.tmpl.yaml --values - --out cluster.yaml
  kops toolbox template --values values.yaml --config-value network.cidr`,
		func(ctx context.Context, args []string) error { return o.run(ctx, app, args) })
	c.ValidArgsFunction = shell.CompleteCluster(app)
	f := c.Flags()
	f.StringSliceVar(&o.templates, "template", nil, "`file` of a template, or folder of templates; repeatable")
	f.StringSliceVar(&o.values, "values", nil, "`file` of values in YAML or JSON, folder of them, or - for stdin; repeatable")
	f.StringSliceVar(&o.snippets, "snippets", nil, "`file` of a snippet, or folder of snippets; repeatable")
	f.StringArrayVar(&o.sets, "set", nil, "values to set: `name=value`,outer.inner=value,list={a,b},list[1]=b; repeatable")
	f.StringArrayVar(&o.texts, "set-string", nil, "value to set as text: `name=value`; repeatable")
	f.StringVar(&o.out, "out", "", "file to write, instead of stdout")
	f.StringVar(&o.output, "output", "", "use --out")
	shell.Deprecate(c, "output", "use --out")
	f.StringVar(&o.configValue, "config-value", "", "value to print instead of templates, such as network.cidr")
	f.StringVar(&o.channel, "channel", versions.Stable, "channel that recommends versions and images: stable, alpha or a file")
	f.BoolVar(&o.failOnMissing, "fail-on-missing", true, "fail if a template uses a value that is not set")
	f.BoolVar(&o.formatYAML, "format-yaml", false, "format the output as YAML with sorted keys")
	shell.Complete(c, "channel", versions.Stable, versions.Alpha)
	return c
}

func (o *templateOptions) run(ctx context.Context, app *shell.App, args []string) error {
	if len(o.templates) == 0 && o.configValue == "" {
		return shell.Usagef("name a template with --template, or a value with --config-value")
	}
	values, err := o.merge(ctx, app, args)
	if err != nil {
		return err
	}
	text := ""
	if o.configValue != "" {
		text, err = valueText(values, o.configValue)
	} else {
		text, err = o.render(ctx, app, values)
	}
	if err != nil {
		return err
	}
	if out := o.out + o.output; out != "" {
		return shell.WriteText(out, text)
	}
	app.Printf("%s", text)
	return nil
}

// valueText returns a value as text, and lists and maps as YAML.
func valueText(values map[string]any, path string) (string, error) {
	v, ok := template.Get(values, path)
	if !ok {
		return "", fmt.Errorf("the value %s is not set", path)
	}
	if text, ok := v.(string); ok {
		return text + "\n", nil
	}
	text, err := yaml.Marshal(v)
	return string(text), err
}

// merge returns all values; later ones override earlier ones.
func (o *templateOptions) merge(ctx context.Context, app *shell.App, args []string) (map[string]any, error) {
	values := map[string]any{}
	files, err := readAll(ctx, app, o.values)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		more, err := template.Parse([]byte(f.Text))
		if err != nil {
			return nil, fmt.Errorf("values %s: %w", f.Name, err)
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
	name, err := app.ExplicitName(args)
	if _, isSet := values["clusterName"]; err == nil && !isSet && name != "" {
		values["clusterName"] = name
	}
	return values, err
}

func (o *templateOptions) render(ctx context.Context, app *shell.App, values map[string]any) (string, error) {
	files, err := readAll(ctx, app, o.templates)
	if err != nil {
		return "", err
	}
	parts, err := readAll(ctx, app, o.snippets)
	if err != nil {
		return "", err
	}
	snippets := map[string]string{}
	for _, f := range parts {
		name := filepath.Base(f.Name)
		if _, exists := snippets[name]; exists {
			return "", fmt.Errorf("two snippets have the file name %s, by which templates include them; rename one", name)
		}
		snippets[name] = f.Text
	}
	functions, err := o.functions(ctx, app)
	if err != nil {
		return "", err
	}
	text, err := template.Render(files, template.Options{Values: values, Snippets: snippets, FailOnMissing: o.failOnMissing, Functions: functions})
	if err == nil && o.formatYAML {
		text, err = template.Format(text)
	}
	return text, err
}

// readAll reads files, and all files of folders in order of their paths.
func readAll(ctx context.Context, app *shell.App, paths []string) ([]template.File, error) {
	var out []template.File
	for _, p := range paths {
		names := []string{p}
		if info, err := os.Stat(p); err == nil && info.IsDir() {
			if names, err = filesBelow(p); err != nil {
				return nil, err
			}
		}
		for _, n := range names {
			data, err := app.ReadFile(ctx, n)
			if err != nil {
				return nil, err
			}
			out = append(out, template.File{Name: n, Text: string(data)})
		}
	}
	return out, nil
}

// filesBelow lists the files of a folder and its subfolders, except hidden ones.
func filesBelow(dir string) (out []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		hidden := path != dir && strings.HasPrefix(d.Name(), ".")
		switch {
		case err != nil:
			return err
		case hidden && d.IsDir():
			return fs.SkipDir
		case !hidden && !d.IsDir():
			out = append(out, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the folder %s: %w", dir, err)
	}
	return out, nil
}

// functions returns the functions that read the environment, and those that return the channel's
// recommendations.
func (o *templateOptions) functions(ctx context.Context, app *shell.App) (map[string]any, error) {
	channel, ok := versions.Embedded(o.channel)
	if !ok {
		data, err := app.ReadFile(ctx, o.channel)
		if err == nil {
			channel, err = versions.Parse(data)
		}
		if err != nil {
			return nil, fmt.Errorf("channel %s: %w; use %s, %s or a file", o.channel, err, versions.Stable, versions.Alpha)
		}
	}
	return map[string]any{
		"env":       app.Env,
		"expandenv": func(text string) string { return os.Expand(text, app.Env) },
		"ChannelRecommendedKopsKubernetesVersion": func() string { return channel.NewClusterVersion(app.Version) },
		"ChannelRecommendedKubernetesUpgradeVersion": func(current string) (string, error) {
			_, err := versions.ParseVersion(current)
			return channel.UpgradeVersion(current, app.Version), err
		},
		"ChannelRecommendedImage": func(cloud, kubernetes, arch string) (string, error) {
			v, err := versions.ParseVersion(kubernetes)
			image := channel.Image(api.CloudProviderID(cloud), arch, v)
			if err == nil && image == "" {
				err = fmt.Errorf("the channel %s has no image for %s, Kubernetes %s and %s", o.channel, cloud, kubernetes, arch)
			}
			return image, err
		},
	}, nil
}

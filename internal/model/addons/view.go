package addons

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/catalogue"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/template"
)

// View is the data for manifests.
type View struct {
	*catalogue.View
	// Version is kops' own.
	Version string
	Region  string
	// Own are the platform's own values, by name.
	Own map[string]string
	// Environment are the variables that control-plane pods need to reach the cluster's store.
	Environment []api.ContainerEnvVar

	input  Input
	images *[]Image
	later  marks
	boots  bool
}

func newView(in Input) (*View, error) {
	v := &View{View: catalogue.ViewOf(in.Cluster, in.Groups, in.Traits), Version: in.Version, Region: in.Region, Environment: in.Environment, input: in, images: &[]Image{}}
	if of := in.Traits.Model.Values; of != nil {
		var err error
		if v.Own, err = of(in.Cluster, v.facts(), in.Region); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// facts returns the facts of the cluster's platform.
func (v *View) facts() *facts.Cloud { return v.input.Facts.Of(v.Cloud) }

// fill executes a template over the view.
func (v *View) fill(t *template.Template) ([]byte, error) {
	var filled *template.Template
	include := func(name string, data any) (string, error) { return filled.ExecuteDefined(name, data) }
	filled = t.With(template.Funcs{"include": include, "image": v.image, "own": v.ownImage, "secret": v.secret, "userData": v.userData})
	text, err := filled.Execute(v)
	if err != nil {
		return nil, fmt.Errorf("fill in the template: %w", err)
	}
	return []byte(text), nil
}

// TemplateFunc returns a function for manifests.
func (v *View) TemplateFunc(name string) any {
	switch name {
	case "APIServer":
		return v.APIServer
	case "ControllerConfig":
		return v.ControllerConfig
	case "OwnFlags":
		return v.OwnFlags
	case "OwnOf":
		return v.OwnOf
	case "Repairs":
		return v.Repairs
	case "ScalingGroups":
		return v.ScalingGroups
	case "StoreFolders":
		return v.StoreFolders
	}
	return v.View.TemplateFunc(name)
}

// usedImages lists the images that templates used, without duplicates.
func (v *View) usedImages() []Image {
	slices.SortFunc(*v.images, func(a, b Image) int { return strings.Compare(a.Public, b.Public) })
	return slices.Compact(*v.images)
}

// image records that a pod runs an image, and returns the name under which the cluster pulls it.
func (v *View) image(public string) string {
	i := Image{public, Pull(public, v.Spec.Assets, v.input.Facts)}
	*v.images = append(*v.images, i)
	return i.Used
}

// ownImage is like image, for one of kops' own programs.
func (v *View) ownImage(program string) string {
	i := v.input.ownImage(program)
	*v.images = append(*v.images, i)
	return i.Used
}

// secret returns the text of one of the cluster's secrets, "" if there is none.
func (v *View) secret(name string) string { return v.input.Secrets[name].Reveal() }

// userData returns what the machines of a group run at their first boot.
func (v *View) userData(g *api.InstanceGroup) (string, error) {
	v.boots = true
	if v.input.UserData == nil {
		return "", nil
	}
	data, err := v.input.UserData(g)
	if err != nil {
		return "", err
	}
	return v.later.text(data), nil
}

// OwnFlags returns the flags that only the platform passes to an add-on.
func (v *View) OwnFlags(addon string) []string {
	if of := v.input.Traits.Model.AddonFlags; of != nil {
		return of(v.input.Cluster, addon)
	}
	return nil
}

// OwnOf returns the platform's own values of a group, by name.
func (v *View) OwnOf(g *api.InstanceGroup) (map[string]any, error) {
	of := v.input.Traits.Model.GroupValues
	if of == nil {
		return nil, nil
	}
	return of(v.input.Cluster, g, v.facts())
}

// StoreFolders lists the folders with the cluster's files and its secrets, without duplicates;
// empty if the store is not a folder.
func (v *View) StoreFolders() []string {
	var out []string
	for _, url := range []string{v.Spec.ConfigStore.Base, v.Spec.ConfigStore.Secrets} {
		folder, ok := managedfile.FolderOf(url)
		if ok && !slices.ContainsFunc(out, func(above string) bool { return folder == above || strings.HasPrefix(folder, above+"/") }) {
			out = append(out, folder)
		}
	}
	return out
}

// APIServer returns where pods on the host network reach the API server without a service.
func (v *View) APIServer() string { return hostnames.API(v.Name) }

// ScalingGroups returns the platform's groups that make up an instance group.
func (v *View) ScalingGroups(g *api.InstanceGroup) []traits.ScalingGroup {
	if of := v.Platform.Model.ScalingGroups; of != nil {
		return of(v.input.Cluster, g)
	}
	return traits.WholeGroup(g.Name+"."+v.Name, g)
}

package catalogue_test

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/catalogue"
)

// view returns the view of a cluster for conditions.
func view(kubernetes string) *catalogue.View {
	c := &api.Cluster{}
	c.Name, c.Spec.KubernetesVersion = "a.example.com", kubernetes
	c.Spec.CloudProvider.AWS = &api.AWSSpec{}
	return catalogue.ViewOf(c, nil, nil)
}

// folder returns a catalogue with one add-on.
func folder(t *testing.T, head string) (*catalogue.Catalogue, error) {
	t.Helper()
	return catalogue.Read(fstest.MapFS{"mine/addon.yaml": {Data: []byte(head)}})
}

// TestConditionsOfABareClusterCanBeEvaluated evaluates what the stages need of an empty spec, as
// validation does before a cluster is completed.
func TestConditionsOfABareClusterCanBeEvaluated(t *testing.T) {
	v, c := view("1.36.3"), (*catalogue.Catalogue)(nil).Or()
	for _, a := range c.Addons() {
		for what, ask := range map[string]catalogue.Condition{"when": a.When, "present": a.Present, "account": a.Account.When, "defaults": a.Defaults.When, "prune": a.Prune, "needsPKI": a.NeedsPKI} {
			if _, err := ask.Holds(v); err != nil {
				t.Errorf("%s: %s: %v", a.Folder, what, err)
			}
		}
		if err := a.Fill(v); err != nil {
			t.Errorf("%s: %v", a.Folder, err)
		}
		for _, file := range []string{"manifest.yaml", "policy-aws.yaml"} { // these are only parsed when they are needed
			if _, err := a.Template(file); err != nil {
				t.Error(err)
			}
		}
		for _, n := range a.Requires {
			if _, err := n.IsMissing(v); err != nil || n.Remedy == "" || n.Path == "" {
				t.Errorf("%s: %+v: %v", a.Folder, n, err)
			}
		}
	}
}

func TestDefaultsFollowTheVersion(t *testing.T) {
	c, err := folder(t, `
name: mine
when: true
spec: clusterAutoscaler
defaults:
  values:
    enabled: true
    image: [{from: "1.36", value: "a:36"}, {from: "1.34", value: "a:34"}, {value: "a:old"}]
    expander: '{{ if .IPv6 }}no{{ end }}'
    newPodScaleUpDelay: '{{ .Name }}'
    cpuRequest: 100m`)
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{"1.37.0": "a:36", "1.36.1": "a:36", "v1.35.9": "a:34", "1.33.0": "a:old"} {
		v := view(version)
		if err := c.Addons()[0].Fill(v); err != nil {
			t.Fatal(err)
		}
		s := v.Spec.ClusterAutoscaler
		if *s.Image != want || !*s.Enabled || s.Expander != "" || *s.NewPodScaleUpDelay != "a.example.com" || s.CPURequest.String() != "100m" {
			t.Errorf("%s: %+v, image %s", version, s, *s.Image)
		}
	}
}

// TestWrongFoldersAreRefused reads folders that no cluster could ever use.
func TestWrongFoldersAreRefused(t *testing.T) {
	for head, want := range map[string]string{
		"name: mine\nwhan: true": "whan",
		"name: mine\nspec: clusterAutoscaler\ndefaults: {values: {imag: x}}":                                "has no field imag",
		"name: mine\nspec: clusterAutoscaler\ndefaults: {values: {enabled: often}}":                         "often",
		"name: mine\nspec: clusterAutoscaler\ndefaults: {values: {image: [{from: new, value: x}]}}":         "new",
		"name: mine\nspec: clusterAutoscaler\ndefaults: {values: {enabled: [{from: '1.3', value: often}]}}": "often",
		"name: mine\nrequires: [{addon: other}]":                                                            `the add-on "other"`,
		"name: mine\nwhen: '{{ if }}'":                                                                      "missing value",
		"name: mine\nbundle: {addon: a, network: b, set: spec.a=b}":                                         "either an add-on or a pod network",
		"name: mine\nbundle: {addon: a}":                                                                    "needs set or images",
		"name: mine\nbundle: {set: spec.a=b}":                                                               "need the name of an add-on",
		"name: mine\nbundle: {netwrok: a}":                                                                  "netwrok",
	} {
		if _, err := folder(t, head); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "mine") {
			t.Errorf("%s: %v, want %s", head, err, want)
		}
	}
	c, err := folder(t, "name: mine\nwhen: '{{ .Name }}'")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Addons()[0].When.Holds(view("")); err == nil || !strings.Contains(err.Error(), "neither true nor false") {
		t.Error(err)
	}
}

func TestTheTagOfAnImageIsNotThePortOfItsRegistry(t *testing.T) {
	for image, want := range map[string]string{
		"registry.e.com:5000/a:v1.18.9":           "v1.18.9",
		"registry.e.com:5000/a":                   "none",
		"registry.e.com/a:v1.18.8@sha256:0123abc": "v1.18.8",
	} {
		c, err := folder(t, "name: mine\nwhen: '{{ eq (tag \""+image+"\" \"none\") \""+want+"\" }}'\n")
		if err != nil {
			t.Fatal(err)
		}
		if on, err := c.Addons()[0].When.Holds(view("1.36.3")); err != nil || !on {
			t.Errorf("%s: the tag is not %s: %v", image, want, err)
		}
	}
}

func TestAClusterHasAnAddonWithWhatItAlwaysRequires(t *testing.T) {
	c, err := catalogue.Read(fstest.MapFS{
		"low/addon.yaml":   {Data: []byte("name: low\nwhen: true\nbundle: {addon: low, set: spec.low=true}")},
		"often/addon.yaml": {Data: []byte("name: often\nwhen: true\nbundle: {addon: often, set: spec.often=true}\nrequires: [{addon: low, when: '{{ .IPv6 }}'}]")},
		"high/addon.yaml":  {Data: []byte("name: high\nwhen: true\nbundle: {addon: high, set: spec.high=true}\nrequires: [{addon: low}, {ownRoles: true}]")},
		"yours/addon.yaml": {Data: []byte("name: yours\nbundle: {addon: yours, images: ['a:1']}")},
		"other/addon.yaml": {Data: []byte("name: other\nwhen: true")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{"low": {"spec.low=true"}, "often": {"spec.often=true"}, "high": {"spec.high=true", "spec.low=true"}, "yours": nil} {
		if got := c.OnRequest()[name].Settings(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if got := c.OnRequestNames(); !slices.Equal(got, []string{"high", "low", "often", "yours"}) {
		t.Errorf("on request: %v", got)
	}
}

// TestImagesForUsersAreThoseOfTheManifest: an add-on's version is written in both places.
func TestImagesForUsersAreThoseOfTheManifest(t *testing.T) {
	for name, a := range (*catalogue.Catalogue)(nil).Or().OnRequest() {
		text, err := os.ReadFile("addons/" + a.Folder + "/manifest.yaml")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for _, i := range a.Bundle.Images {
			if err != nil || !strings.Contains(string(text), strconv.Quote(i)) {
				t.Errorf("%s: the manifest does not run %s: %v", name, i, err)
			}
		}
	}
}

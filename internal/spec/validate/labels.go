package validate

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fields"
)

// long reports that something has more characters than its place allows.
func (c *Check) long(path, value, of string, n int, place string, most int) {
	c.Bad(path, value, fmt.Sprintf("has %d %s, but %s can have at most %d", n, of, place, most), "choose a shorter one")
}

// The parts of an entry of labels or tags that can be too long.
const (
	inKey   = "characters in its key"
	inValue = "characters"
)

func nodeLabels(c *Check, g *api.InstanceGroup) {
	for _, key := range sortedKeys(g.Spec.NodeLabels) {
		if value := g.Spec.NodeLabels[key]; key != api.LabelInstanceGroup || value != g.Name { // the name of the group has a rule of its own
			c.nodeLabel("spec.nodeLabels["+key+"]", key, value)
		}
	}
	if k := g.Spec.Kubelet; k != nil {
		rest := maps.Clone(k.NodeLabels)
		maps.DeleteFunc(rest, func(key, _ string) bool { _, ok := g.Spec.NodeLabels[key]; return ok }) // a completed group has its labels in both places
		c.kubeletLabels("spec.kubelet", rest)
	}
}

// kubeletLabels checks labels with which kubelets register their nodes.
func (c *Check) kubeletLabels(path string, labels map[string]string) {
	for _, key := range sortedKeys(labels) {
		c.nodeLabel(path+".nodeLabels["+key+"]", key, labels[key])
	}
}

// clusterNodeLabels checks the labels of the nodes of all groups.
func clusterNodeLabels(c *Check) {
	if k := c.Spec.Kubelet; k != nil {
		c.kubeletLabels("spec.kubelet", k.NodeLabels)
	}
	if k := c.Spec.ControlPlaneKubelet; k != nil {
		c.kubeletLabels("spec.masterKubelet", k.NodeLabels)
	}
}

// annotations checks the keys of annotations as the API server does, which ignores their case.
func annotations(c *Check) {
	fields.Each("spec", reflect.ValueOf(c.Spec), func(path string, _ reflect.StructField, v reflect.Value) bool {
		all, ok := v.Interface().(map[string]string)
		if !ok || !strings.HasSuffix(path, "Annotations") {
			return true
		}
		for _, key := range sortedKeys(all) {
			at := c.older(path)
			if key != "" {
				at += "[" + key + "]"
			}
			if len(validation.IsQualifiedName(strings.ToLower(key))) > 0 {
				c.Bad(at, all[key], "does not have a valid annotation key", validKey)
			}
		}
		return false
	})
}

// validKey is the remedy for keys that the API server does not accept.
const validKey = "write name or prefix/name; the prefix is a DNS name, and the name consists of letters, digits, dashes, dots and underscores"

func (c *Check) nodeLabel(path, key, value string) {
	prefix, name, ok := strings.Cut(key, "/")
	if !ok {
		prefix, name = "", key
	}
	tags := c.platform.Machines.Tags
	switch most := validation.LabelValueMaxLength; {
	case strings.Contains(name, "/"):
		c.Bad(path, value, "has more than one slash in its key", "write prefix/name")
	case len(name) > most:
		c.long(path, value, inKey, len(name), "the name of a label", most)
	case len(prefix) > validation.DNS1123SubdomainMaxLength:
		c.long(path, value, inKey, len(prefix), "the prefix of a label", validation.DNS1123SubdomainMaxLength)
	case len(validation.IsQualifiedName(key)) > 0:
		c.Bad(path, value, "does not have a valid label key", validKey)
	case len(value) > most:
		c.long(path, value, inValue, len(value), "the value of a label", most)
	case len(validation.IsValidLabelValue(value)) > 0:
		c.Bad(path, value, "is not a valid label value", "use letters, digits, dashes, dots and underscores; begin and end with a letter or a digit")
	case tags != nil && len(tags.LabelPrefix+key) > tags.Key:
		c.long(path, value, inKey, len(key), "a label in "+tags.Place, tags.Key-len(tags.LabelPrefix))
	}
}

// tag checks that the cloud accepts a tag.
func (c *Check) tag(path, key, value string) {
	tags := c.platform.Machines.Tags
	if tags == nil {
		return
	}
	if n := utf8.RuneCountInString(key); n > tags.Key {
		c.long(path, value, inKey, n, tags.Place, tags.Key)
	}
	if n := utf8.RuneCountInString(value); n > tags.Value {
		c.long(path, value, inValue, n, tags.Place, tags.Value)
	}
}

package validate

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/api"
)

// What a tag takes on AWS, in characters (Amazon EC2 User Guide, Tag restrictions).
const tagKeyMax, tagValueMax = 128, 256

// autoscalerLabel begins the tag by which the cluster autoscaler knows a label that
// the nodes of an empty group would have.
const autoscalerLabel = "k8s.io/cluster-autoscaler/node-template/label/"

// long notes that there are more characters of something than a place for them takes.
func (c *check) long(path, value, of string, n int, place string, most int) {
	c.bad(path, value, fmt.Sprintf("has %d %s, and %s has %d at most", n, of, place, most), "choose a shorter one")
}

// What of an entry of labels or tags is too long.
const (
	inKey   = "characters in its key"
	inValue = "characters"
)

func nodeLabels(c *check, g *api.InstanceGroup) {
	for _, key := range sortedKeys(g.Spec.NodeLabels) {
		if value := g.Spec.NodeLabels[key]; key != api.LabelInstanceGroup || value != g.Name { // the name of the group has a rule of its own
			c.nodeLabel("spec.nodeLabels["+key+"]", key, value)
		}
	}
}

func (c *check) nodeLabel(path, key, value string) {
	prefix, name, ok := strings.Cut(key, "/")
	if !ok {
		prefix, name = "", key
	}
	switch most := validation.LabelValueMaxLength; {
	case strings.Contains(name, "/"):
		c.bad(path, value, "has more than one slash in its key", "write prefix/name")
	case len(name) > most:
		c.long(path, value, inKey, len(name), "the name of a label", most)
	case len(prefix) > validation.DNS1123SubdomainMaxLength:
		c.long(path, value, inKey, len(prefix), "the prefix of a label", validation.DNS1123SubdomainMaxLength)
	case len(validation.IsQualifiedName(key)) > 0:
		c.bad(path, value, "has a key that no label can have", "write name or prefix/name: a prefix is a DNS name, and a name of letters, digits, dashes, dots and underscores")
	case len(value) > most:
		c.long(path, value, inValue, len(value), "the value of a label", most)
	case len(validation.IsValidLabelValue(value)) > 0:
		c.bad(path, value, "is a value that no label can have", "use letters, digits, dashes, dots and underscores; begin and end with a letter or a digit")
	case c.cloud == api.CloudAWS && len(autoscalerLabel+key) > tagKeyMax:
		c.long(path, value, inKey, len(key), "a label in a tag of AWS", tagKeyMax-len(autoscalerLabel))
	}
}

// tag checks that the cloud takes a tag.
func (c *check) tag(path, key, value string) {
	if c.cloud != api.CloudAWS {
		return
	}
	if n := utf8.RuneCountInString(key); n > tagKeyMax {
		c.long(path, value, inKey, n, "a tag of AWS", tagKeyMax)
	}
	if n := utf8.RuneCountInString(value); n > tagValueMax {
		c.long(path, value, inValue, n, "a tag of AWS", tagValueMax)
	}
}

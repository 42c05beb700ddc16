package validate

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/api"
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
}

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
		c.Bad(path, value, "does not have a valid label key", "write name or prefix/name; the prefix is a DNS name, and the name consists of letters, digits, dashes, dots and underscores")
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

package spec

import (
	"fmt"
	"regexp"
	"strings"

	"kops.local/kops/internal/platform/gce/gcename"
)

// Most characters of names, labels and network tags of Google's (RFC 1035; Compute Engine,
// "Naming resources" and "Organize resources using labels").
const (
	nameMax  = 63
	labelMax = 63
	// groupMax leaves room for the random end of an instance's name.
	groupMax = 58
)

// resourceName is a name that Google's resources can have.
var resourceName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// isName reports whether Google's resources can have a name.
func isName(s string) bool { return len(s) <= nameMax && resourceName.MatchString(s) }

// ParseNetwork takes a network apart as a spec writes it: name, or project/name where another
// project shares it.
func ParseNetwork(id string) (project, name string, ok bool) {
	project, name, slash := strings.Cut(id, "/")
	if !slash {
		project, name = "", id
	}
	return project, name, isName(name) && (!slash || isProject(project))
}

// projectID is the id of a project, before which a domain may stand.
var projectID = regexp.MustCompile(`^([a-z0-9.-]+:)?[a-z][-a-z0-9]*[a-z0-9]$`)

func isProject(s string) bool { return projectID.MatchString(s) }

// imageForms are how an image is written.
const imageForms = "project/name, or name for an image of the cluster's project (gcloud compute images list)"

// ParseImage takes an image apart as a spec writes it: project/name, or name for one of the
// cluster's own project.
func ParseImage(text string) (project, name string, ok bool) {
	return ParseNetwork(text)
}

// ImageURL is the address of an image of which ParseImage could tell; own is the cluster's project.
func ImageURL(text, own string) string {
	project, name, _ := ParseImage(text)
	if project == "" {
		project = own
	}
	return fmt.Sprintf("https://www.googleapis.com/compute/v1/projects/%s/global/images/%s", project, name)
}

// networkName is the name of a cluster's network, and the project of a shared one that is
// not in the cluster's own.
func networkName(cluster, networkID string) (project, name string) {
	if networkID == "" {
		return "", gcename.Network(cluster)
	}
	project, name, _ = ParseNetwork(networkID)
	return project, name
}

// labelText is what a label's key and value may hold; a key begins with a letter.
var labelText = regexp.MustCompile(`[^-_a-z0-9]+`)

// fitLabel returns a label that Google takes, spelled as near as can be.
func fitLabel(key, value string) (string, string) {
	fit := func(s string) string {
		s = strings.Trim(labelText.ReplaceAllString(strings.ToLower(s), "-"), "-")
		return s[:min(len(s), labelMax)]
	}
	key, value = fit(key), fit(value)
	if key == "" || key[0] < 'a' || key[0] > 'z' {
		key = fit("k-" + key)
	}
	return key, value
}

// takesLabel reports whether Google takes a label as it is.
func takesLabel(key, value string) bool {
	return key != "" && key[0] >= 'a' && key[0] <= 'z' && len(key) <= labelMax && len(value) <= labelMax &&
		!labelText.MatchString(key) && !labelText.MatchString(value)
}

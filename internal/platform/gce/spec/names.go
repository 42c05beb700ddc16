package spec

import (
	"fmt"
	"regexp"
	"strings"

	"kops.local/kops/internal/platform/gce/gcename"
)

// Maximum lengths of Google's names, labels and network tags (RFC 1035; Compute Engine, "Naming
// resources" and "Organize resources using labels").
const (
	nameMax  = 63
	labelMax = 63
	// groupMax leaves room for the random suffix of an instance's name.
	groupMax = 58
)

// resourceName matches valid names of Google's resources.
var resourceName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// isName reports whether s is a valid name for Google's resources.
func isName(s string) bool { return len(s) <= nameMax && resourceName.MatchString(s) }

// ParseNetwork parses a network in a spec: name, or project/name if another project shares it.
func ParseNetwork(id string) (project, name string, ok bool) {
	project, name, slash := strings.Cut(id, "/")
	if !slash {
		project, name = "", id
	}
	return project, name, isName(name) && (!slash || isProject(project))
}

// projectID matches the ID of a project, with an optional domain prefix.
var projectID = regexp.MustCompile(`^([a-z0-9.-]+:)?[a-z][-a-z0-9]*[a-z0-9]$`)

func isProject(s string) bool { return projectID.MatchString(s) }

// imageForms describes how an image is written.
const imageForms = "project/name, or name for an image of the cluster's project (gcloud compute images list)"

// ParseImage parses an image in a spec: project/name, or name for one in the cluster's own project.
func ParseImage(text string) (project, name string, ok bool) {
	return ParseNetwork(text)
}

// ImageURL returns the URL of an image that ParseImage accepts; own is the cluster's project.
func ImageURL(text, own string) string {
	project, name, _ := ParseImage(text)
	if project == "" {
		project = own
	}
	return fmt.Sprintf("https://www.googleapis.com/compute/v1/projects/%s/global/images/%s", project, name)
}

// networkName returns the name of a cluster's network, and the project of a shared network that is
// not in the cluster's own project.
func networkName(cluster, networkID string) (project, name string) {
	if networkID == "" {
		return "", gcename.Network(cluster)
	}
	project, name, _ = ParseNetwork(networkID)
	return project, name
}

// labelText matches the characters that are not allowed in a label's key and value; a key begins
// with a letter.
var labelText = regexp.MustCompile(`[^-_a-z0-9]+`)

// fitLabel returns a valid label that is as similar as possible.
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

// isLabelAccepted reports whether Google accepts a label as it is.
func isLabelAccepted(key, value string) bool {
	return key != "" && key[0] >= 'a' && key[0] <= 'z' && len(key) <= labelMax && len(value) <= labelMax &&
		!labelText.MatchString(key) && !labelText.MatchString(value)
}

package versions

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/blang/semver/v4"
)

// versionInURL matches a version as an element of a path, as in https://dl.k8s.io/release/v1.36.3/
// or …/ci/v1.37.0-alpha.1.10+0123456789ab.
var versionInURL = regexp.MustCompile(`/v?(\d+\.\d+\.\d+[^/]*)`)

// minorVersion matches a version without a patch.
var minorVersion = regexp.MustCompile(`^v?\d+\.\d+$`)

// ParseVersion reads a Kubernetes or kops version: "1.36.3", "v1.36.3", or the
// base URL of a release that has such a version in its path.
func ParseVersion(text string) (semver.Version, error) {
	s := text
	if IsBaseURL(s) {
		m := versionInURL.FindStringSubmatch(s)
		if m == nil {
			return semver.Version{}, fmt.Errorf("no version in the URL %q", text)
		}
		s = m[1]
	}
	v, err := semver.Parse(strings.TrimPrefix(s, "v"))
	if err != nil {
		return semver.Version{}, fmt.Errorf("%q is not a version such as 1.36.3", text)
	}
	return v, nil
}

// ParseMinor reads a minor version such as 1.36 or v1.36, and returns its first release.
func ParseMinor(text string) (first semver.Version, ok bool) {
	if !minorVersion.MatchString(text) {
		return first, false
	}
	first, err := ParseVersion(text + ".0")
	return first, err == nil
}

// IsBaseURL reports whether a kubernetesVersion is the URL of a release instead of a version.
func IsBaseURL(version string) bool { return strings.Contains(version, "://") }

// AtLeast reports whether v is of the given minor version or a later one.
// Pre-releases of a minor version count as that minor version.
func AtLeast(v semver.Version, major, minor uint64) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// inRange reports whether the semver range contains v; an invalid range contains nothing, and an
// empty one everything.
func inRange(expr string, v semver.Version) bool {
	if expr == "" {
		return true
	}
	r, err := semver.ParseRange(expr)
	return err == nil && r(v)
}

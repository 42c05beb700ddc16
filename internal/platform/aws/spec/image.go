package spec

import "strings"

// Image is a machine image in a spec, parsed.
type Image struct {
	ID        string   // "ami-…"
	Parameter string   // of Systems Manager: "/aws/service/…"
	Owner     string   // an account, an alias of one, or "self"
	Names     []string // possible names of the image
}

// imageAccount returns the account of a publisher's well-known name, or owner itself.
func imageAccount(owner string) string {
	switch owner {
	case "amazon", "amazon.com":
		return "137112412989"
	case "ubuntu":
		return "099720109477"
	case "redhat", "redhat.com":
		return "309956199498"
	case "flatcar":
		return "075585003325"
	}
	return owner
}

// ParseImage parses the forms ami-…, ssm:/path, owner/name, and name for an image of the caller's
// own. Some publishers' image names begin with the publisher's name, as in ubuntu/images/…, so the
// whole text may be the name.
func ParseImage(text string) Image {
	if path, ok := strings.CutPrefix(text, "ssm:"); ok {
		return Image{Parameter: path}
	}
	if strings.HasPrefix(text, "ami-") {
		return Image{ID: text}
	}
	owner, name, ok := strings.Cut(text, "/")
	if !ok {
		return Image{Owner: "self", Names: []string{text}}
	}
	if account := imageAccount(owner); account != owner {
		return Image{Owner: account, Names: []string{name, text}}
	}
	return Image{Owner: owner, Names: []string{name}}
}

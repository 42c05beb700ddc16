package gceapi

import (
	"strings"

	"google.golang.org/api/compute/v1"
)

// linkBase is how Google's answers begin the URLs of objects, whichever host is asked.
const linkBase = "https://www.googleapis.com/compute/v1/"

// Link is the relative form of an object's URL, which is the same at every host and version
// of the API: projects/P/zones/Z/disks/D. What names no project stays as it is.
func Link(url string) string {
	if i := strings.Index(url, "projects/"); i == 0 || i > 0 && url[i-1] == '/' {
		return url[i:]
	}
	return url
}

// URL is the full form of a link, which every field of a request takes.
func URL(link string) string {
	if strings.HasPrefix(link, "projects/") {
		return linkBase + link
	}
	return link
}

// Name is the last part of a link or URL.
func Name(link string) string { return link[strings.LastIndex(link, "/")+1:] }

// Place is what follows a word in a link: Place(link, "zones") is the zone of an object, "" where it is in none.
func Place(link, word string) string {
	parts := strings.Split(Link(link), "/")
	for i := 0; i+1 < len(parts); i += 2 {
		if parts[i] == word {
			return parts[i+1]
		}
	}
	return ""
}

// Metadata is the value of a key of an instance's or a template's metadata, or "".
func Metadata(m *compute.Metadata, key string) string {
	if m == nil {
		return ""
	}
	for _, item := range m.Items {
		if item.Key == key && item.Value != nil {
			return *item.Value
		}
	}
	return ""
}

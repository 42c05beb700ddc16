package gceapi

import (
	"strings"

	"google.golang.org/api/compute/v1"
)

// linkBase is the prefix of objects' URLs in Google's responses, whatever the request's host.
const linkBase = "https://www.googleapis.com/compute/v1/"

// Link returns the relative form of an object's URL, projects/P/zones/Z/disks/D, which is the same
// for every host and API version. Text without a project is returned unchanged.
func Link(url string) string {
	if i := strings.Index(url, "projects/"); i == 0 || i > 0 && url[i-1] == '/' {
		return url[i:]
	}
	return url
}

// URL returns the full form of a link, which every field of a request accepts.
func URL(link string) string {
	if strings.HasPrefix(link, "projects/") {
		return linkBase + link
	}
	return link
}

// Name returns the last part of a link or URL.
func Name(link string) string { return link[strings.LastIndex(link, "/")+1:] }

// Place returns what follows a word in a link: Place(link, "zones") is the zone of an object, or ""
// if it is not in a zone.
func Place(link, word string) string {
	parts := strings.Split(Link(link), "/")
	for i := 0; i+1 < len(parts); i += 2 {
		if parts[i] == word {
			return parts[i+1]
		}
	}
	return ""
}

// Metadata returns the value of a key in the metadata of an instance or a template, or "".
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

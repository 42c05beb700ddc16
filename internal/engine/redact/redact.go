// Package redact removes passwords from the URLs in a text, before it is shown to people or stored
// in files that are passed on. A URL may contain them in its userinfo, https://user:password@host,
// and in its query. The value of a field named host, such as that of an egress proxy, may be a URL
// without its scheme.
//
// It must not know where a text comes from.
package redact

import (
	"regexp"
	"strings"
)

// hidden replaces what was removed.
const hidden = "xxxxx"

var (
	// userinfo matches up to the last @ before the path: a password may contain an @ that is not
	// encoded.
	userinfo = regexp.MustCompile(`(\b[A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"<>]*@`)
	// host matches the same in the value of such a field, in YAML, in JSON and in an assignment.
	host  = regexp.MustCompile(`(?i)((?:\b|\\[nt])host\\*["']?\s*[:=]\s*\\*["']?)[^\s/?#"<>\\]*@`)
	query = regexp.MustCompile(`(\b[A-Za-z][A-Za-z0-9+.-]*://[^\s?#"'<>]*\?)[^\s#"'<>]+`)
)

// Userinfo replaces the user and the password of every URL in a text.
func Userinfo(text string) string {
	return host.ReplaceAllString(userinfo.ReplaceAllString(text, "${1}"+hidden+"@"), "${1}"+hidden+"@")
}

// Field is Userinfo for the value of a field at a path.
func Field(path, value string) string {
	if path == "host" || strings.HasSuffix(path, ".host") {
		return strings.TrimPrefix(Userinfo("host="+value), "host=")
	}
	return Userinfo(value)
}

// URLs replaces the user, the password and the query of every URL in a text.
func URLs(text string) string { return query.ReplaceAllString(Userinfo(text), "${1}"+hidden) }

// Package redact takes passwords out of the URLs in a text, before people or files that
// are handed on get it. A URL may hold them in its userinfo, https://user:password@host,
// and in its query.
//
// It must not know where a text comes from.
package redact

import "regexp"

// hidden stands for what was taken out.
const hidden = "xxxxx"

var (
	// userinfo goes to the last @ before the path: a password may hold an @ that was not encoded.
	userinfo = regexp.MustCompile(`(\b[A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"<>]*@`)
	query    = regexp.MustCompile(`(\b[A-Za-z][A-Za-z0-9+.-]*://[^\s?#"'<>]*\?)[^\s#"'<>]+`)
)

// Userinfo replaces the user and the password of every URL in a text.
func Userinfo(text string) string { return userinfo.ReplaceAllString(text, "${1}"+hidden+"@") }

// HasUserinfo reports whether a URL in a text names a user or a password.
func HasUserinfo(text string) bool { return userinfo.MatchString(text) }

// URLs replaces the user, the password and the query of every URL in a text.
func URLs(text string) string { return query.ReplaceAllString(Userinfo(text), "${1}"+hidden) }

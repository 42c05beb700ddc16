package template

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// joinArgs returns arguments as one text, formatting each like an action that prints it.
func joinArgs(args []any) string {
	texts := make([]any, len(args))
	for i, a := range args {
		texts[i] = a
		if v, ok := printable(reflect.ValueOf(a)); ok {
			texts[i] = v
		}
	}
	return fmt.Sprint(texts...)
}

// escapeHTML escapes special characters in texts and quoted attributes of HTML.
func escapeHTML(text string) string {
	return strings.NewReplacer(`"`, "&#34;", "'", "&#39;", "&", "&amp;", "<", "&lt;", ">", "&gt;", "\x00", "\uFFFD").Replace(text)
}

// escapeJS escapes special characters in quoted texts of JavaScript, including those within HTML.
func escapeJS(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case strings.ContainsRune(`\'"`, r):
			b.WriteByte('\\')
			b.WriteRune(r)
		case strings.ContainsRune("<>&=", r), !unicode.IsPrint(r):
			fmt.Fprintf(&b, "\\u%04X", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

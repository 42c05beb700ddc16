package text

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Stream returns a writer of text to w, in turn with all that the screen draws. Text may
// hold words of others, such as machines, so control characters are shown as \x1b and do
// nothing; only this package draws. here says that w writes to the screen's terminal.
func (s *Screen) Stream(w io.Writer, here bool) io.Writer {
	return &stream{Writer: w, screen: s, here: here}
}

// Exact returns the writer below a stream, for documents such as JSON, whose control
// characters are already escaped, and for programs that draw on the terminal themselves.
// The display is cleared first.
func Exact(w io.Writer) io.Writer {
	s, ok := w.(*stream)
	if !ok {
		return w
	}
	if s.here {
		s.screen.mu.Lock()
		defer s.screen.mu.Unlock()
		_ = s.screen.keep(io.Discard, "")
	}
	return s.Writer
}

type stream struct {
	io.Writer
	screen *Screen
	here   bool
	part   []byte // the beginning of a character whose rest is not written yet
}

// Write implements io.Writer.
func (s *stream) Write(data []byte) (int, error) { return s.write(data, printable) }

// write writes data as show has it. A character that two writes divide is shown whole.
func (s *stream) write(data []byte, show func(string) string) (int, error) {
	s.screen.mu.Lock()
	defer s.screen.mu.Unlock()
	text := string(s.part) + string(data)
	whole := len(text) - partial(text)
	s.part = []byte(text[whole:])
	if text = show(text[:whole]); s.here {
		return len(data), s.screen.keep(s.Writer, text)
	}
	_, err := io.WriteString(s.Writer, text)
	return len(data), err
}

// colored is a stream for text whose printer shows control characters itself.
type colored struct{ *stream }

// Write implements io.Writer.
func (c colored) Write(data []byte) (int, error) {
	return c.write(data, func(s string) string { return s })
}

// drawn returns the writer for a printer that shows control characters itself.
func drawn(w io.Writer) io.Writer {
	if s, ok := w.(*stream); ok {
		return colored{s}
	}
	return w
}

// partial is how many bytes at the end of a text are a character's beginning.
func partial(text string) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRuneInString(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// printable shows the control characters of a text, except newlines and tabs, and bytes
// that are not valid text, as Go spells them: \x1b.
func printable(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if utf8.ValidString(text) && !strings.ContainsFunc(text, hidden) {
		return text
	}
	var out strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case r == '\r':
			out.WriteString(`\r`)
		case hidden(r) && r > unicode.MaxLatin1:
			fmt.Fprintf(&out, `\u%04x`, r)
		case hidden(r):
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			out.WriteRune(r)
		}
		text = text[n:]
	}
	return out.String()
}

// hidden reports whether a character does something to a terminal, or to the order in
// which it shows others, instead of being shown.
func hidden(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// oneLine is a text as a row of a display shows it.
func oneLine(text string) string {
	return printable(strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(text))
}

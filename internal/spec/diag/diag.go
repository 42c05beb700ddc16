// Package diag helps rules to report findings about what a user wrote.
//
// It must not know about objects, rules or terminals.
package diag

import (
	"strings"

	"kops.local/kops/finding"
)

// Finding and List are the results of rules.
type (
	Finding = finding.Finding
	List    = finding.List
)

// Or returns a list in words: "a", "a or b", "a, b or c".
func Or(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
	return strings.Join(words, "")
}

// Nearest returns the candidate closest to name, or "" if none is close enough to be a likely typo:
// at most a third of its letters may differ.
func Nearest(name string, candidates []string) string {
	best, at := "", len(name)/3+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < at || (d == at && best == "") {
			best, at = c, d
		}
	}
	return best
}

// distance returns the Levenshtein distance between two strings, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

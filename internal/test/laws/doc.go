// Package laws holds no code: its tests enforce the rules of the project, such as
// which package may import which. Each failure prints the place and the rule.
package laws

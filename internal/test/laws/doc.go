// Package laws holds no code: its tests keep the rules of the project, such as
// who may import whom. Each failure prints the place and the rule.
package laws

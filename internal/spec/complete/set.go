package complete

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// fill sets a value that is empty.
func fill[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// fillPtr sets an absent value.
func fillPtr[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// fillList sets an empty list.
func fillList[T any](p *[]T, value ...T) {
	if len(*p) == 0 {
		*p = value
	}
}

// fillQuantity sets an absent amount; text is a constant of this package.
func fillQuantity(p **resource.Quantity, text string) { fillPtr(p, resource.MustParse(text)) }

// ensure returns what p points to, made when absent.
func ensure[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

func isTrue(p *bool) bool { return p != nil && *p }

func ptr[T any](v T) *T { return &v }

// overlay returns a copy of base in which everything that over sets is as in
// over: maps are joined key by key, lists are replaced.
func overlay[T any](base, over *T) *T {
	out := new(T)
	for _, layer := range []*T{base, over} {
		if layer == nil {
			continue
		}
		data, err := json.Marshal(layer)
		if err == nil {
			err = json.Unmarshal(data, out)
		}
		if err != nil { // a spec that was read from JSON always goes back and forth
			panic(fmt.Sprintf("overlay %T: %v", out, err))
		}
	}
	return out
}

// union joins lists without doubles, sorted; nil when there is nothing.
func union(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 0 {
		return nil
	}
	return all
}

// Package fill sets values of a spec that are empty, and no others.
//
// It must not know what the values mean.
package fill

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Value sets a value that is empty.
func Value[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// Ptr sets an absent value.
func Ptr[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// List sets an empty list.
func List[T any](p *[]T, value ...T) {
	if len(*p) == 0 {
		*p = value
	}
}

// Quantity sets an absent amount; text is a constant.
func Quantity(p **resource.Quantity, text string) { Ptr(p, resource.MustParse(text)) }

// Ensure returns what p points to, made when absent.
func Ensure[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

// Overlay returns a copy of base in which everything that over sets is as in
// over: maps are joined key by key, lists are replaced.
func Overlay[T any](base, over *T) *T {
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

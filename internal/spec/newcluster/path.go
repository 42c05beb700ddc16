package newcluster

import (
	"fmt"
	"strconv"
	"strings"
)

// element is one step of a field path: a key, an index of a list, or all indices.
type element struct {
	key   string
	index int // -1 means every element
	list  bool
}

// parsePath reads a path such as spec.etcdClusters[0].manager.logLevel,
// spec.etcdClusters[*].version or spec.nodeLabels[example.com/team]; it may begin
// with the kind of the object.
func parsePath(kind, text string) ([]element, error) {
	text = strings.TrimPrefix(text, strings.ToLower(kind)+".")
	var path []element
	for rest := text; rest != ""; {
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end > 0 {
			path = append(path, element{key: rest[:end]})
			rest = rest[end:]
		}
		for strings.HasPrefix(rest, "[") {
			inside, after, ok := strings.Cut(rest[1:], "]")
			if !ok || inside == "" {
				return nil, fmt.Errorf("%q has an empty or unclosed bracket", text)
			}
			path, rest = append(path, bracket(inside)), after
		}
		if rest == "" {
			break
		}
		if !strings.HasPrefix(rest, ".") || len(rest) == 1 {
			return nil, fmt.Errorf("%q is not a path such as spec.kubeDNS.provider", text)
		}
		rest = rest[1:]
	}
	if len(path) < 2 || path[0].list || path[0].key != "spec" && path[0].key != "metadata" {
		return nil, fmt.Errorf("%q is not a path such as spec.kubeDNS.provider", text)
	}
	return path, nil
}

func bracket(inside string) element {
	if inside == "*" {
		return element{list: true, index: -1}
	}
	if n, err := strconv.Atoi(inside); err == nil && n >= 0 {
		return element{list: true, index: n}
	}
	return element{key: strings.Trim(inside, `"'`)}
}

// change replaces the value at the path in a document, or removes it.
func change(at any, path []element, value any, remove bool) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	e, rest := path[0], path[1:]
	if e.list {
		return changeList(at, e, rest, value, remove)
	}
	if at == nil {
		at = map[string]any{}
	}
	m, ok := at.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the parent of %q has no fields", e.key)
	}
	if remove && len(rest) == 0 {
		delete(m, e.key)
		return m, nil
	}
	if _, there := m[e.key]; remove && !there {
		return m, nil
	}
	inner, err := change(m[e.key], rest, value, remove)
	m[e.key] = inner
	return m, err
}

func changeList(at any, e element, rest []element, value any, remove bool) (any, error) {
	list, ok := at.([]any)
	if !ok && at != nil {
		return nil, fmt.Errorf("the field before [%d] is not a list", e.index)
	}
	switch {
	case e.index < 0 && len(list) == 0:
		return nil, fmt.Errorf("the list before [*] is empty")
	case e.index > len(list) || e.index == len(list) && remove:
		return nil, fmt.Errorf("the list has %d elements, so [%d] does not exist", len(list), e.index)
	case e.index == len(list):
		list = append(list, nil)
	}
	if remove && len(rest) == 0 && e.index >= 0 {
		return append(list[:e.index:e.index], list[e.index+1:]...), nil
	}
	if remove && len(rest) == 0 {
		return []any{}, nil
	}
	for i := range list {
		if e.index >= 0 && i != e.index {
			continue
		}
		inner, err := change(list[i], rest, value, remove)
		if err != nil {
			return nil, err
		}
		list[i] = inner
	}
	return list, nil
}

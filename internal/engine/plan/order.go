package plan

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/resource"
)

// order applies four rules: a resource comes after those it refers to; a new object comes after the
// removal of the one it replaces, unless its kind creates first; an old object is removed after
// everything observed to use it is gone or has stopped using it; access is removed after other
// access of the kind was granted.
func (b *builder) order() error {
	for i := range b.steps {
		s := &b.steps[i]
		if s.Op == Delete {
			continue
		}
		n, _ := b.want.Get(s.Address)
		for _, r := range n.Refs() {
			if j, ok := b.apply[r]; ok {
				s.After = append(s.After, j)
			}
		}
		if !s.Replaces {
			continue
		}
		if r := b.remove[s.Have]; s.Kind.CreatesFirst() {
			b.steps[r].After = append(b.steps[r].After, i)
		} else {
			s.After = append(s.After, r)
		}
	}
	if err := b.orderRemovals(); err != nil {
		return err
	}
	b.orderClosing()
	return nil
}

// orderClosing applies the fourth rule, so that no one who should have access is locked out. If the
// removal of what is accessed waits for the removal of access, the rule does not apply.
func (b *builder) orderClosing() {
	awaited := map[int]bool{}
	for _, s := range b.steps {
		for _, j := range s.After {
			awaited[j] = true
		}
	}
	for _, i := range b.closingSteps {
		if awaited[i] {
			continue
		}
		for j, s := range b.steps {
			if s.Address.Kind == b.steps[i].Address.Kind && (s.Op == Create || s.Op == Update) {
				b.steps[i].After = append(b.steps[i].After, j)
			}
		}
	}
}

// orderRemovals applies the third rule.
func (b *builder) orderRemovals() error {
	owner := map[string]any{} // objects by identity
	for _, k := range b.kinds {
		for _, o := range b.have[k.KindName()] {
			k.Schema().Identities(o.Got, func(s string) { owner[s] = o.Got })
		}
	}
	var errs []error
	for _, k := range b.kinds {
		for _, o := range b.have[k.KindName()] {
			k.Schema().Texts(o.Got, func(s string) {
				used, ok := owner[s]
				if !ok || used == o.Got {
					return
				}
				if err := b.removeAfter(used, k, o); err != nil {
					errs = append(errs, err)
				}
			})
		}
	}
	return errors.Join(errs...)
}

// removeAfter makes the removal of used come after the step for its user.
func (b *builder) removeAfter(used any, k resource.Any, user resource.Object) error {
	gone, ok := b.remove[used]
	if !ok {
		return nil
	}
	d := &b.steps[gone]
	if i, ok := b.remove[user.Got]; ok {
		d.After = append(d.After, i)
		return nil
	}
	i, ok := b.holder[user.Got]
	if !ok { // a deferred deletion: the user stays
		return fmt.Errorf("%s must be deleted, but %s/%s, which stays, uses it; allow deletions with option:Prune", d.Address, k.KindName(), user.Key)
	}
	if b.match[d.Address] == d.Have && !d.Kind.CreatesFirst() {
		return fmt.Errorf("%s must be replaced, but %s, which stays, uses it", d.Address, b.steps[i].Address)
	}
	d.After = append(d.After, i)
	return nil
}

// sorted sorts the steps, each after those it depends on, and ties by address, so that equal inputs
// give equal plans.
func (b *builder) sorted() (*Plan, error) {
	in := b.steps
	waits, followers := make([]int, len(in)), make([][]int, len(in))
	for i := range in {
		slices.Sort(in[i].After)
		in[i].After = slices.Compact(in[i].After)
		waits[i] = len(in[i].After)
		for _, j := range in[i].After {
			followers[j] = append(followers[j], i)
		}
	}
	ready := &queue{steps: in}
	for i := range in {
		if waits[i] == 0 {
			heap.Push(ready, i)
		}
	}
	p, at := &Plan{}, make([]int, len(in))
	for ready.Len() > 0 {
		i := heap.Pop(ready).(int)
		at[i] = len(p.Steps)
		p.Steps = append(p.Steps, in[i])
		for _, f := range followers[i] {
			if waits[f]--; waits[f] == 0 {
				heap.Push(ready, f)
			}
		}
	}
	if len(p.Steps) < len(in) {
		return nil, cycle(in, waits)
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		after := make([]int, len(s.After))
		for n, j := range s.After {
			after[n] = at[j]
		}
		slices.Sort(after)
		s.After = after
	}
	slices.SortFunc(b.deferred, compare)
	p.Deferred = b.deferred
	return p, nil
}

// cycle returns an error that names the steps that wait for each other.
func cycle(in []Step, waits []int) error {
	var names []string
	for i, s := range in {
		if waits[i] > 0 {
			names = append(names, string(s.Op)+" "+s.Address.String())
		}
	}
	slices.Sort(names)
	return fmt.Errorf("the changes depend on each other in a cycle: %s", strings.Join(names, ", "))
}

func compare(a, b Step) int {
	return cmp.Or(cmp.Compare(a.Address.Kind, b.Address.Kind), cmp.Compare(a.Address.Name, b.Address.Name),
		cmp.Compare(a.Op, b.Op), cmp.Compare(haveID(a), haveID(b)))
}

func haveID(s Step) string {
	if s.Have == nil {
		return ""
	}
	return identity(s.Kind, s.Have)
}

// queue is a heap of steps that are ready, the first by address on top.
type queue struct {
	steps []Step
	items []int
}

func (q *queue) Len() int           { return len(q.items) }
func (q *queue) Less(i, j int) bool { return compare(q.steps[q.items[i]], q.steps[q.items[j]]) < 0 }
func (q *queue) Swap(i, j int)      { q.items[i], q.items[j] = q.items[j], q.items[i] }
func (q *queue) Push(x any)         { q.items = append(q.items, x.(int)) }
func (q *queue) Pop() any {
	last := len(q.items) - 1
	x := q.items[last]
	q.items = q.items[:last]
	return x
}

package plan_test

import (
	"testing"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
)

type street struct {
	Name string
	Side string `res:"forbid"`
	ID   string `res:"out,id" out:"id"`
}

type house struct {
	Number string
	Street resource.Value `res:"forbid"`
}

// An object that belongs to another one cannot be moved. If that is not found, the error says why,
// once, and not that its identifier is unknown.
func TestAForbiddenChangeToWhatWasNotFound(t *testing.T) {
	streets := resource.Kind[street, any]{Name: "street", Key: func(s *street) string { return s.Name }}
	houses := resource.Kind[house, any]{Name: "house", Key: func(h *house) string { return h.Number }}
	inStreet := func(id string) []resource.Object {
		return []resource.Object{{Key: "1", Got: &house{"1", resource.Lit(id)}}, {Key: "2", Got: &house{"2", resource.Lit(id)}}}
	}
	main := streets.New("main", street{Name: "main"})
	g := &graph.Graph{}
	if err := g.Add(main, houses.New("a", house{"1", main.Out("id")}), houses.New("b", house{"2", main.Out("id")})); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		have plan.Snapshot
		want string
	}{
		"it was renamed": {plan.Snapshot{"street": {{Key: "high", Got: &street{Name: "high", ID: "street-1"}}}, "house": inStreet("street-1")},
			`street/main was not found: street-1, to which resources of the cluster belong, has the name "high" instead of "main"; change its name back`},
		"it is another": {plan.Snapshot{"street": {{Key: "high", Got: &street{Name: "high", ID: "street-2"}}}, "house": inStreet("street-1")},
			`street/main was not found, but resources of the cluster belong to street-1; undo the change to the spec, or, if only the name or the tags of street-1 were changed, change them back`},
		"it cannot change": {plan.Snapshot{"street": {{Key: "main", Got: &street{Name: "main", Side: "west", ID: "street-1"}}}, "house": inStreet("street-1")},
			`street/main: Side cannot change from "west" to ""; undo the change, or delete and create it`},
		"both exist": {plan.Snapshot{"street": {{Key: "main", Got: &street{Name: "main", ID: "street-1"}}}, "house": inStreet("street-2")},
			`house/a: Street cannot change from "street-2" to "street-1"; undo the change, or delete and create it
house/b: Street cannot change from "street-2" to "street-1"; undo the change, or delete and create it`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plan.Make(g, tt.have, []resource.Any{streets.Erase(), houses.Erase()}, plan.Options{})
			if err == nil || err.Error() != tt.want {
				t.Errorf("got\n%v\nwant\n%s", err, tt.want)
			}
		})
	}
}

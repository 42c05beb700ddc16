package complete

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"kops.local/kops/internal/spec/fields"
)

// dropZeroAmounts unsets the quantities of zero in fields that are tagged zero:"unset", so that
// they get their defaults.
func dropZeroAmounts(p *Pass) {
	eachQuantity("spec", reflect.ValueOf(p.Spec), func(_ string, f reflect.StructField, q **resource.Quantity) {
		if f.Tag.Get("zero") == "unset" && (*q).IsZero() {
			*q = nil
		}
	})
}

// fitAmounts changes a default request or limit of a container that does not fit what the user
// wrote for the other: the API server rejects requests above a limit.
func fitAmounts(p *Pass) {
	all := map[string]**resource.Quantity{}
	eachQuantity("spec", reflect.ValueOf(p.Spec), func(path string, _ reflect.StructField, q **resource.Quantity) { all[path] = q })
	for path, most := range all {
		name, isLimit := strings.CutSuffix(path, "Limit")
		least := all[name+"Request"]
		if !isLimit || least == nil || (*most).Sign() < 0 || (*most).Cmp(**least) >= 0 {
			continue
		}
		switch {
		case p.isDefault(path):
			*most = ptr((*least).DeepCopy())
		case p.isDefault(name + "Request"):
			*least = ptr((*most).DeepCopy())
		}
	}
}

// isDefault reports whether a rule filled the value of the cluster at a path.
func (p *Pass) isDefault(path string) bool {
	_, ok := p.provenance.Cluster[path]
	return ok
}

// eachQuantity visits the fields below a pointer to a struct that have a quantity, with their paths
// as in Provenance.
func eachQuantity(path string, v reflect.Value, visit func(path string, f reflect.StructField, q **resource.Quantity)) {
	fields.Each(path, v, func(path string, f reflect.StructField, v reflect.Value) bool {
		q, ok := v.Addr().Interface().(**resource.Quantity)
		if ok && *q != nil {
			visit(path, f, q)
		}
		return !ok
	})
}

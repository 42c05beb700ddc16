package validate

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fields"
)

// Suffixes of the fields with the CPU or memory of a container.
const (
	request = "Request"
	limit   = "Limit"
)

// quantities checks every request and limit of CPU and memory by the API server's rules for containers:
// they are not negative, and a limit is not less than the request. A zero that means the default
// is not checked.
func quantities(c *Check, spec reflect.Value) {
	amounts := map[string]*resource.Quantity{}
	var limits []string
	fields.Each("spec", spec, func(path string, f reflect.StructField, v reflect.Value) bool {
		q, ok := v.Interface().(*resource.Quantity)
		if !ok || q == nil || q.IsZero() && f.Tag.Get("zero") == "unset" || !strings.HasSuffix(path, request) && !strings.HasSuffix(path, limit) {
			return !ok
		}
		c.notNegative(c.older(path), q)
		amounts[path] = q
		if strings.HasSuffix(path, limit) {
			limits = append(limits, path)
		}
		return false
	})
	for _, path := range limits {
		of := strings.TrimSuffix(path, limit) + request
		if least := amounts[of]; least != nil && least.Sign() > 0 && amounts[path].Sign() >= 0 && amounts[path].Cmp(*least) < 0 {
			name := of[strings.LastIndexByte(of, '.')+1:]
			c.Bad(c.older(path), amounts[path].String(), "is less than "+name+" "+least.String(), "raise it, or write a lower "+name)
		}
	}
}

// notNegative rejects a quantity below zero.
func (c *Check) notNegative(path string, q *resource.Quantity) {
	if q.Sign() < 0 {
		c.Bad(path, q.String(), "is less than 0", "write a quantity such as 100m of CPU or 128Mi of memory")
	}
}

// bounds checks a minimum and a maximum.
func (c *Check) bounds(path string, m *api.MinMaxSpec) {
	if m == nil {
		return
	}
	if m.Min != nil {
		c.notNegative(path+".min", m.Min)
	}
	if m.Max != nil {
		c.notNegative(path+".max", m.Max)
	}
	if m.Min != nil && m.Max != nil && m.Max.Cmp(*m.Min) < 0 {
		c.Bad(path+".max", m.Max.String(), "is less than min "+m.Min.String(), "raise it, or lower min")
	}
}

// kubeletReserved checks resources that a kubelet sets aside: it exits at once if it does not accept
// one of them.
func (c *Check) kubeletReserved(path string, reserved map[string]string) {
	for _, name := range sortedKeys(reserved) {
		at, value := path+"["+name+"]", reserved[name]
		q, err := resource.ParseQuantity(value)
		switch {
		case name != "cpu" && name != "memory" && name != "ephemeral-storage" && name != "pid":
			c.Bad(at, value, "is not a resource that kubelets can reserve", "use cpu, memory, ephemeral-storage or pid")
		case err != nil:
			c.Bad(at, value, "is not a quantity", "write one such as 100m of CPU or 128Mi of memory")
		default:
			c.notNegative(at, &q)
		}
	}
}

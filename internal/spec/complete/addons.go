package complete

import "kops.local/kops/internal/spec/catalogue"

// addonRules fill the settings of add-ons with the defaults in their folders.
func addonRules(all *catalogue.Catalogue) []Rule {
	var rules []Rule
	for _, a := range all.Or().Addons() {
		if len(a.Defaults.Values) == 0 {
			continue
		}
		rules = append(rules, Rule{a.Rule, a.Defaults.Why, func(p *Pass) {
			if err := a.Fill(catalogue.ViewOf(p.Cluster, p.groups, p.platform.Traits)); err != nil {
				p.Fail("spec."+a.Spec, "", a.Rule, "cannot be completed: "+err.Error(), "this is a bug in kops; please report it")
			}
		}})
	}
	return rules
}

package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/names"
	"kops.local/kops/internal/platform/aws/awsname"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/spec/fill"
)

// account is a service account with its own role.
type account struct {
	name, namespace string
	grants          []grant  // for an add-on's account
	policies        []string // ARNs
	inline          string   // a JSON list of statements
}

func (a account) role(m *model) string { return awsname.AccountRole(a.name, a.namespace, m.name) }

// export returns the account's name in Terraform's outputs.
func (a account) export() string { return names.Plain(a.namespace) + "-" + names.Plain(a.name) }

// serviceAccounts returns the service accounts of add-ons, and those in the spec.
func (m *model) serviceAccounts() ([]account, error) {
	var list []account
	grants, err := m.accountGrants()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(grants)) {
		list = append(list, account{name: name, namespace: "kube-system", grants: grants[name]})
	}
	if m.spec.IAM == nil {
		return list, nil
	}
	for _, p := range m.spec.IAM.ServiceAccountExternalPermissions {
		a := account{name: p.Name, namespace: p.Namespace}
		if p.AWS != nil {
			a.policies, a.inline = p.AWS.PolicyARNs, p.AWS.InlinePolicy
		}
		list = append(list, a)
	}
	return list, nil
}

// hasOIDC reports whether the AWS account trusts the cluster's tokens.
func (m *model) hasOIDC() bool {
	d := m.spec.ServiceAccountIssuerDiscovery
	return d != nil && d.EnableAWSOIDCProvider
}

// issuer returns the issuer of service account tokens, without the scheme.
func (m *model) issuer() string {
	if m.spec.KubeAPIServer == nil {
		return ""
	}
	return strings.TrimPrefix(fill.Or(m.spec.KubeAPIServer.ServiceAccountIssuer, ""), "https://")
}

// oidcProvider makes IAM trust the issuer. The thumbprints belong to the authorities of
// S3's certificates; AWS no longer compares them.
func (m *model) oidcProvider() resource.Node {
	return kinds.OIDCProviders.New(m.name, kinds.OIDCProvider{
		URL:         "https://" + m.issuer(),
		ClientIDs:   append([]string{"amazonaws.com"}, m.spec.ServiceAccountIssuerDiscovery.AdditionalAudiences...),
		Thumbprints: []string{"9e99a48a9960b14926bb7f3b02e22da2b0ab7280", "a9d53002e97e00e043244f3d170d6f4c414104fd"},
		Tags:        m.tags(m.name),
	})
}

// accountIdentity returns the role of a service account and its policies.
func (m *model) accountIdentity(a account) ([]resource.Node, error) {
	if m.issuer() == "" {
		return nil, fmt.Errorf("the cluster has no issuer of service account tokens")
	}
	operator := "StringEquals"
	if strings.Contains(a.namespace+a.name, "*") {
		operator = "StringLike"
	}
	who, err := trustPolicy(statement{
		Action:    oneText("sts:AssumeRoleWithWebIdentity"),
		Principal: map[string]texts{"Federated": oneText(m.arn("iam", ":"+m.account.AccountID+":oidc-provider/"+m.issuer()))},
	}.withCondition(operator, m.issuer()+":sub", oneText("system:serviceaccount:"+a.namespace+":"+a.name)))
	if err != nil {
		return nil, err
	}
	name := a.role(m)
	role := m.newRole(name, who, tagServiceAccount+"name", names.Plain(a.name), tagServiceAccount+"namespace", names.Plain(a.namespace))
	text, err := m.accountPolicy(a)
	if err != nil {
		return nil, err
	}
	nodes := append([]resource.Node{role}, rolePolicy(name, text, role)...)
	return append(nodes, attachments("external-"+name, a.policies, role)...), nil
}

// accountPolicy returns the inline policy of a service account's role; "" if it has none.
func (m *model) accountPolicy(a account) (string, error) {
	if a.inline == "" {
		return m.policy(a.grants)
	}
	list, err := userStatements(a.inline)
	if err != nil || len(list) == 0 {
		return "", err
	}
	return renderPolicy(list)
}

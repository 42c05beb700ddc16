package risk

import (
	"fmt"
	"path"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/finding"
	"kops.local/kops/internal/contract/paths"
)

// auditFile is a file that API servers read to audit requests.
type auditFile struct {
	path func(*api.KubeAPIServerConfig) string // empty: the API server has no such file
	what string
	risk string // of another content
}

func auditFiles() []auditFile {
	return []auditFile{
		{func(s *api.KubeAPIServerConfig) string { return s.AuditPolicyFile }, "the audit policy", "API servers may no longer record events that they recorded"},
		{func(s *api.KubeAPIServerConfig) string { return s.AuditWebhookConfigFile }, "the configuration of the audit webhook", "API servers may send events elsewhere, or lose them"},
	}
}

// of returns the file's path in a cluster; "" if it has none.
func (f auditFile) of(c *api.Cluster) string {
	if s := c.Spec.KubeAPIServer; s != nil && f.path(s) != "" {
		return path.Clean(f.path(s))
	}
	return ""
}

// asset is a file of a spec. Group is the name of the group in whose spec it is, or "".
type asset struct {
	group string
	index int
	api.FileAssetSpec
}

// assetAt returns the file that the machines of a group get at a path: the first one for their role.
// Files of the group come before files of the cluster.
func assetAt(c *api.Cluster, g *api.InstanceGroup, at string) (asset, bool) {
	find := func(list []api.FileAssetSpec) int {
		return slices.IndexFunc(list, func(f api.FileAssetSpec) bool {
			return paths.FileAsset(f.Path, f.Name) == at && (len(f.Roles) == 0 || slices.Contains(f.Roles, g.Spec.Role))
		})
	}
	if i := find(g.Spec.FileAssets); i >= 0 {
		return asset{g.Name, i, g.Spec.FileAssets[i]}, true
	}
	if i := find(c.Spec.FileAssets); i >= 0 {
		return asset{"", i, c.Spec.FileAssets[i]}, true
	}
	return asset{}, false
}

// text returns what machines write to the file.
func (a asset) text() string {
	text, err := a.Data()
	if err != nil {
		return a.Content // validation rejects it
	}
	return text
}

// servers returns the groups whose machines run an API server.
func (in In) servers() (out []*api.InstanceGroup) {
	for _, g := range in.Groups {
		if g.HasAPIServer() {
			out = append(out, g)
		}
	}
	if len(out) == 0 { // then only the files of the cluster are known
		out = append(out, &api.InstanceGroup{Spec: api.InstanceGroupSpec{Role: api.RoleControlPlane}})
	}
	return out
}

// appliedServers returns the groups that a group's machines are compared with: the group as it was
// last applied, or all groups with an API server if it is new. If the groups are not known, it
// returns a group without files of its own.
func (in In) appliedServers(g *api.InstanceGroup) (out []*api.InstanceGroup) {
	if was := in.AppliedGroups[g.Name]; was != nil {
		return []*api.InstanceGroup{was}
	}
	for _, was := range in.AppliedGroups {
		if was.HasAPIServer() {
			out = append(out, was)
		}
	}
	if len(out) == 0 {
		out = append(out, &api.InstanceGroup{Spec: api.InstanceGroupSpec{Role: g.Spec.Role}})
	}
	return out
}

// auditFileMissing reports files that API servers need to start, and that no file of the objects is.
// Those that machines have from elsewhere, such as their image, are not reported.
func auditFileMissing(in In) (out []finding.Finding) {
	if in.Applied == nil || in.Now == nil {
		return nil
	}
	for _, file := range auditFiles() {
		at := file.of(in.Now)
		if at == "" {
			continue
		}
		servers := in.servers()
		without := slices.DeleteFunc(slices.Clone(servers), func(g *api.InstanceGroup) bool {
			_, has := assetAt(in.Now, g, at)
			return has || in.hasFromElsewhere(g, at)
		})
		f := finding.Finding{Path: "spec.fileAssets", Message: "no file of the cluster is " + at + ", which API servers read: they do not start unless the image of the machines has it",
			Remedy: "add the file to spec.fileAssets"}
		if len(without) == len(servers) {
			out = append(out, f)
			continue
		}
		for _, g := range without {
			f.Object, f.Message = api.Name(g), "no file of the group or of the cluster is "+at+", which API servers read: those of the group do not start unless the image of the machines has it"
			out = append(out, f)
		}
	}
	return out
}

// hasFromElsewhere reports whether API servers already read the file, and no file of the objects was
// it.
func (in In) hasFromElsewhere(g *api.InstanceGroup, at string) bool {
	if !slices.ContainsFunc(auditFiles(), func(f auditFile) bool { return f.of(in.Applied) == at }) {
		return false
	}
	return !slices.ContainsFunc(in.appliedServers(g), func(was *api.InstanceGroup) bool {
		_, had := assetAt(in.Applied, was, at)
		return had
	})
}

// audits reports whether API servers record events: they need a policy, and a log or a webhook.
func audits(c *api.Cluster) bool {
	s := c.Spec.KubeAPIServer
	return s != nil && s.AuditPolicyFile != "" && (s.AuditLogPath != nil && *s.AuditLogPath != "" || s.AuditWebhookConfigFile != "")
}

func auditRemoved(in In) []finding.Finding {
	if in.Applied == nil || in.Now == nil || !audits(in.Applied) || audits(in.Now) {
		return nil
	}
	return []finding.Finding{{Path: "spec.kubeAPIServer", Message: "API servers no longer record audit events, for which they need a policy, and a log or a webhook",
		Remedy: "keep auditPolicyFile, and auditLogPath or auditWebhookConfigFile"}}
}

// auditChanged reports audit files with another content, if the objects have both contents.
func auditChanged(in In) (out []finding.Finding) {
	if in.Applied == nil || in.Now == nil || !audits(in.Applied) || !audits(in.Now) {
		return nil
	}
	for _, file := range auditFiles() {
		at := file.of(in.Now)
		for _, g := range in.servers() {
			now, ok := assetAt(in.Now, g, at)
			if !ok || !in.isNewText(file, g, now) {
				continue
			}
			f := finding.Finding{Path: fmt.Sprintf("spec.fileAssets[%d].content", now.index), Message: fmt.Sprintf("%s %s changes: %s", file.what, at, file.risk),
				Remedy: "compare the contents; kops get revisions shows the previous one"}
			if now.group != "" {
				f.Object = api.Name(g)
			}
			if !slices.ContainsFunc(out, func(o finding.Finding) bool {
				return o.Object == f.Object && o.Path == f.Path && o.Message == f.Message
			}) {
				out = append(out, f)
			}
		}
	}
	return out
}

// isNewText reports whether a group's API servers read another text than before, wherever it was.
// Machines of a new group are compared with the machines of all other groups.
func (in In) isNewText(file auditFile, g *api.InstanceGroup, now asset) bool {
	if in.AppliedGroups == nil && now.group != "" {
		return false // the group's files are not known
	}
	at, known := file.of(in.Applied), false
	for _, was := range in.appliedServers(g) {
		if a, had := assetAt(in.Applied, was, at); had {
			known = true
			if a.text() == now.text() {
				return false
			}
		}
	}
	return known
}

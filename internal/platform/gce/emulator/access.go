package emulator

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/standin/tree"
)

// account is a service account.
type account struct {
	email, project, id   string
	display, description string
	disabled             bool
	visibleAt            time.Time // when the account becomes visible to other services
	builtIn              bool      // it exists from the start
}

// setCommonMetadata replaces the metadata that all instances of a project share.
func (c *call) setCommonMetadata() (object, error) {
	p := c.projects[c.params["project"]]
	if c.body["fingerprint"] != p.metadata["fingerprint"] {
		return nil, staleError("Supplied fingerprint does not match current metadata fingerprint.")
	}
	to := tree.Clone(c.body)
	if err := checkMetadata("metadata", to); err != nil {
		return nil, err
	}
	return c.operate("setMetadata", "projects/"+p.id, func(context.Context) error {
		p.metadata = to
		return nil
	}, nil)
}

// knowsAccount reports whether a service account can be given to instances: accounts of other projects,
// and Google's own, are assumed to exist.
func (e *Emulator) knowsAccount(email string) bool {
	if email == "default" {
		return true
	}
	if a := e.accounts[email]; a != nil {
		return !e.Now().Before(a.visibleAt)
	}
	_, domain, _ := strings.Cut(email, "@")
	project, own := strings.CutSuffix(domain, ".iam.gserviceaccount.com")
	return domain != "" && (!own || e.projects[project] == nil)
}

func accessHandlers() map[string]handler {
	return map[string]handler{
		"iam.projects.serviceAccounts.create":        (*call).createAccount,
		"iam.projects.serviceAccounts.get":           onAccount(func(_ *call, a *account) (object, error) { return a.toObject(), nil }),
		"iam.projects.serviceAccounts.list":          (*call).listAccounts,
		"iam.projects.serviceAccounts.patch":         onAccount((*call).patchAccount),
		"iam.projects.serviceAccounts.update":        onAccount((*call).updateAccount),
		"iam.projects.serviceAccounts.delete":        onAccount((*call).deleteAccount),
		"cloudresourcemanager.projects.get":          (*call).describeProject,
		"cloudresourcemanager.projects.getIamPolicy": (*call).getProjectPolicy,
		"cloudresourcemanager.projects.setIamPolicy": (*call).setProjectPolicy,
		"cloudresourcemanager.projects.testIamPermissions": func(c *call) (object, error) {
			if _, err := c.findProject(c.params["resource"]); err != nil {
				return nil, err
			}
			return c.allowedPermissions(tree.Texts(c.body, "permissions")), nil
		},
	}
}

var accountID = pattern(`^[a-z]([-a-z0-9]{4,28}[a-z0-9])$`)

func (a *account) toObject() object {
	o := object{"name": "projects/" + a.project + "/serviceAccounts/" + a.email, "projectId": a.project, "uniqueId": a.id, "email": a.email, "oauth2ClientId": a.id, "etag": encode([]byte(fingerprint(a.display, a.description)))}
	for field, v := range map[string]string{"displayName": a.display, "description": a.description} {
		if v != "" {
			o[field] = v
		}
	}
	if a.disabled {
		o["disabled"] = true
	}
	return o
}

// projectOfName returns the project in a name such as projects/p/serviceAccounts/a.
func (c *call) projectOfName() (*project, error) {
	parts := strings.Split(c.params["name"], "/")
	if p := c.projects[parts[1]]; p != nil {
		return p, nil
	}
	return nil, refusal(http.StatusNotFound, "notFound", "Unknown project id: %s", parts[1])
}

func (c *call) createAccount() (object, error) {
	p, err := c.projectOfName()
	if err != nil {
		return nil, err
	}
	id := tree.Text(c.body, "accountId")
	if !accountID().MatchString(id) {
		return nil, refusal(http.StatusBadRequest, "badRequest", "The account ID %q does not have a length between 6 and 30, or does not match [a-z]([-a-z0-9]*[a-z0-9]).", id)
	}
	if n := len(tree.Text(tree.Sub(c.body, "serviceAccount"), "displayName")); n > 100 {
		return nil, refusal(http.StatusBadRequest, "badRequest", "The display name has %d bytes; the maximum is 100.", n)
	}
	email := id + "@" + p.id + ".iam.gserviceaccount.com"
	if c.accounts[email] != nil {
		return nil, refusal(http.StatusConflict, "alreadyExists", "Service account %s already exists within project projects/%s.", id, p.id)
	}
	s := tree.Sub(c.body, "serviceAccount")
	a := &account{email: email, project: p.id, id: c.newID(), display: tree.Text(s, "displayName"), description: tree.Text(s, "description"), visibleAt: c.Now().Add(c.o.AccountDelay)}
	c.accounts[email] = a
	return a.toObject(), nil
}

// onAccount returns a handler for a method on one service account, which is named by its email or
// its ID; the project may be a dash.
func onAccount(do func(*call, *account) (object, error)) handler {
	return func(c *call) (object, error) {
		parts := strings.Split(c.params["name"], "/")
		for _, a := range c.accounts {
			if (a.email == parts[3] || a.id == parts[3]) && (parts[1] == "-" || parts[1] == a.project) {
				return do(c, a)
			}
		}
		return nil, refusal(http.StatusNotFound, "notFound", "Service account %s does not exist.", c.params["name"])
	}
}

func (c *call) listAccounts() (object, error) {
	p, err := c.projectOfName()
	if err != nil {
		return nil, err
	}
	var all []object
	for _, email := range sortedKeys(c.accounts) {
		if c.accounts[email].project == p.id {
			all = append(all, c.accounts[email].toObject())
		}
	}
	size := 0
	if _, err := fmt.Sscan(c.params["pageSize"], &size); err != nil || size <= 0 || size > 100 {
		size = 20 // as the method's documentation says
	}
	page, next, err := pageFrom(all, c.params["pageToken"], size)
	if err != nil {
		return nil, err
	}
	out := object{}
	if len(page) > 0 {
		out["accounts"] = tree.ListOf(page)
	}
	if next != "" {
		out["nextPageToken"] = next
	}
	return out, nil
}

func (c *call) patchAccount(a *account) (object, error) {
	s := tree.Sub(c.body, "serviceAccount")
	for _, field := range strings.Split(tree.Text(c.body, "updateMask"), ",") {
		switch field {
		case "display_name", "displayName":
			a.display = tree.Text(s, "displayName")
		case "description":
			a.description = tree.Text(s, "description")
		default:
			return nil, refusal(http.StatusBadRequest, "badRequest", "The update mask %q has a field that cannot be changed.", tree.Text(c.body, "updateMask"))
		}
	}
	return a.toObject(), nil
}

func (c *call) updateAccount(a *account) (object, error) {
	a.display, a.description = tree.Text(c.body, "displayName"), tree.Text(c.body, "description")
	return a.toObject(), nil
}

// deleteAccount removes a service account. Policies keep it as a deleted member.
func (c *call) deleteAccount(a *account) (object, error) {
	delete(c.accounts, a.email)
	for _, p := range c.policies() {
		p.rename("serviceAccount:"+a.email, "deleted:serviceAccount:"+a.email+"?uid="+a.id)
	}
	return object{}, nil
}

// policy is an IAM policy.
type policy struct {
	bindings []object
	version  int64
	changes  int64 // number of changes
}

func newPolicy() policy { return policy{version: 1, changes: 1} }

func (p *policy) etag() string { return encode([]byte(fmt.Sprintf("policy%06d", p.changes))) }

func (p *policy) rename(from, to string) {
	for _, b := range p.bindings {
		members := tree.Texts(b, "members")
		if i := slices.Index(members, from); i >= 0 {
			members[i] = to
			b["members"] = tree.ListOf(members)
			p.changes++
		}
	}
}

// policies returns all existing policies.
func (e *Emulator) policies() []*policy {
	var out []*policy
	for _, p := range e.projects {
		out = append(out, &p.policy)
	}
	for _, b := range e.buckets {
		out = append(out, &b.policy)
	}
	return out
}

// conditional is the policy version in which bindings may have conditions.
const conditional = 3

// concurrent is the error message for writing a policy that was changed since it was read.
const concurrent = "There were concurrent policy changes. Please retry the whole read-modify-write with exponential backoff."

// toObject returns a policy as a response. Bindings with conditions are complete only if the request
// asks for version 3.
func (p *policy) toObject(version int64) object {
	bindings := list{}
	shown := int64(1)
	for _, b := range p.bindings {
		b = tree.Clone(b)
		if b["condition"] != nil {
			if shown = p.version; version != conditional {
				shown = 1
				b["role"] = tree.Text(b, "role") + "_withcond_" + fmt.Sprintf("%016x", len(tree.Text(tree.Sub(b, "condition"), "expression")))
				delete(b, "condition")
			}
		}
		bindings = append(bindings, b)
	}
	out := object{"version": shown, "etag": p.etag()}
	if len(bindings) > 0 {
		out["bindings"] = bindings
	}
	return out
}

var memberForm = pattern(`^(allUsers|allAuthenticatedUsers|(user|group|serviceAccount|domain|projectOwner|projectEditor|projectViewer|principal|principalSet|deleted):.+)$`)

// writePolicy replaces a policy. It returns old if the etag is not the current one.
func (c *call) writePolicy(p *policy, to object, old *Error) error {
	if sent := tree.Text(to, "etag"); sent != "" && sent != p.etag() {
		return old
	}
	version := tree.Number(to, "version")
	var bindings []object
	for i, b := range tree.Subs(to, "bindings") {
		at := fmt.Sprintf("policy.bindings[%d]", i)
		if tree.Text(b, "role") == "" {
			return invalid(at+".role", "", "It must be specified.")
		}
		if b["condition"] != nil && version != conditional {
			return invalid(at+".condition", "", "Bindings with conditions need version 3 of the policy.")
		}
		for _, m := range tree.Texts(b, "members") {
			if err := c.checkMember(m); err != nil {
				return err
			}
		}
		if len(tree.Texts(b, "members")) > 0 {
			bindings = append(bindings, tree.Clone(b))
		}
	}
	p.bindings, p.version, p.changes = bindings, max(version, 1), p.changes+1
	return nil
}

// checkMember rejects a member that does not exist.
func (c *call) checkMember(m string) error {
	if !memberForm().MatchString(m) {
		return refusal(http.StatusBadRequest, "badRequest", "Invalid member: %s.", m)
	}
	if email, ok := strings.CutPrefix(m, "serviceAccount:"); ok && (email == "default" || !c.knowsAccount(email)) {
		return refusal(http.StatusBadRequest, "badRequest", "Service account %s does not exist.", email)
	}
	return nil
}

// findProject returns a project for Resource Manager.
func (c *call) findProject(id string) (*project, error) {
	if p := c.projects[id]; p != nil {
		return p, nil
	}
	return nil, refusal(http.StatusForbidden, "forbidden", "The caller does not have permission")
}

func (c *call) getProjectPolicy() (object, error) {
	p, err := c.findProject(c.params["resource"])
	if err != nil {
		return nil, err
	}
	return p.policy.toObject(tree.Number(tree.Sub(c.body, "options"), "requestedPolicyVersion")), nil
}

func (c *call) setProjectPolicy() (object, error) {
	p, err := c.findProject(c.params["resource"])
	if err != nil {
		return nil, err
	}
	if err := c.writePolicy(&p.policy, tree.Sub(c.body, "policy"), refusal(http.StatusConflict, "aborted", "%s", concurrent)); err != nil {
		return nil, err
	}
	return p.policy.toObject(conditional), nil
}

// allowedPermissions returns those of the permissions that the caller has.
func (e *Emulator) allowedPermissions(permissions []string) object {
	out := object{}
	tree.SetTexts(out, "permissions", slices.DeleteFunc(permissions, func(p string) bool { return e.denied[p] }))
	return out
}

func (c *call) describeProject() (object, error) {
	p, err := c.findProject(c.params["projectId"])
	if err != nil {
		return nil, err
	}
	return object{"projectId": p.id, "projectNumber": fmt.Sprint(p.number), "name": p.id, "lifecycleState": "ACTIVE", "createTime": "2020-01-01T00:00:00Z"}, nil
}

// accessInventory returns the service accounts that were created, and the members of policies.
func (e *Emulator) accessInventory() []string {
	var out []string
	for email, a := range e.accounts {
		if !a.builtIn {
			out = append(out, "projects/"+a.project+"/serviceAccounts/"+email)
		}
	}
	places := map[string]*policy{}
	for id, p := range e.projects {
		places["projects/"+id] = &p.policy
	}
	for name, b := range e.buckets {
		places["b/"+name] = &b.policy
	}
	for place, p := range maps.All(places) {
		for _, b := range p.bindings {
			for _, m := range tree.Texts(b, "members") {
				out = append(out, place+"/policy/"+tree.Text(b, "role")+"/"+m)
			}
		}
	}
	return out
}

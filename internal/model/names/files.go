package names

import "strings"

// GroupFolder is where the configuration of a group's machines stands below the
// folder of its cluster; role is that of the group, as its spec has it.
func GroupFolder(role, group string) string {
	folder := strings.ToLower(role)
	if role == "ControlPlane" {
		folder = "control-plane"
	}
	return "igconfig/" + folder + "/" + group + "/"
}

// NodeConfig is the name of a group's node configuration in its folder.
const NodeConfig = "nodeupconfig.yaml"

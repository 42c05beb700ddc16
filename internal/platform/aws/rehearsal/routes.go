package rehearsal

import (
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// routedTo matches the instance that is a route's target, in a response that lists routes.
var routedTo = regexp.MustCompile(`<instanceId>(i-[0-9a-f]+)</instanceId>`)

const (
	// item is the start of each item in EC2's lists.
	item      = "<item>"
	active    = "<state>" + string(types.RouteStateActive) + "</state>"
	blackhole = "<state>" + string(types.RouteStateBlackhole) + "</state>"
)

// markBlackholes marks the routes in a response that lead to ended instances, as AWS does (API
// reference, Route). The emulator's routes stay active: then the cloud controller, which looks up
// the node of each route, creates no routes for new nodes.
func (s snapshot) markBlackholes(answer string) string {
	parts := strings.Split(answer, item)
	for i, part := range parts {
		one, _, _ := strings.Cut(part, "</item>")
		id := routedTo.FindStringSubmatch(one)
		if id == nil {
			continue
		}
		if _, ended := s.ended[id[1]]; ended {
			parts[i] = strings.Replace(part, active, blackhole, 1)
		}
	}
	return strings.Join(parts, item)
}

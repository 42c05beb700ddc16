package rehearsal

import (
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// routedTo is the instance to which a route leads, in an answer that lists routes.
var routedTo = regexp.MustCompile(`<instanceId>(i-[0-9a-f]+)</instanceId>`)

const (
	// item begins each item of a list of EC2's.
	item      = "<item>"
	active    = "<state>" + string(types.RouteStateActive) + "</state>"
	blackhole = "<state>" + string(types.RouteStateBlackhole) + "</state>"
)

// blackholes marks the routes in an answer that lead to ended instances, as AWS does (API
// reference, Route). The emulator's are active for ever: then the cloud's controller, which looks
// for the node of each, makes no route for a new one.
func (s snapshot) blackholes(answer string) string {
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

package model

import (
	"kops.local/kops/internal/contract/staticpod"
)

// asUser is the context of a container that is an ordinary user.
func asUser(uid int64) *staticpod.SecurityContext {
	yes, c := true, staticpod.Confined()
	c.RunAsUser, c.RunAsNonRoot = &uid, &yes
	return c
}

// reader is the context of a container that reads files of whichever user of the
// host's, and may write none but its own.
func reader() *staticpod.SecurityContext {
	root, c := int64(0), staticpod.Confined("DAC_READ_SEARCH")
	c.RunAsUser = &root
	return c
}

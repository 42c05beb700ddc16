package model

import (
	"kops.local/kops/internal/contract/staticpod"
)

// asUser returns the security context of a container that runs as an ordinary user.
func asUser(uid int64) *staticpod.SecurityContext {
	yes, c := true, staticpod.Confined()
	c.RunAsUser, c.RunAsNonRoot = &uid, &yes
	return c
}

// reader returns the security context of a container that may read files of any user on the host,
// and only writes its own.
func reader() *staticpod.SecurityContext {
	root, c := int64(0), staticpod.Confined("DAC_READ_SEARCH")
	c.RunAsUser = &root
	return c
}

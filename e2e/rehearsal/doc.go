// Package rehearsal tests whole clusters on an AWS that is emulated on this host: from unmodified
// user data on machines of this host, with the commands of the README.
package rehearsal

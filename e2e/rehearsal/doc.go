// Package rehearsal tests whole clusters on AWS as it is played on this host: from unmodified
// user data on machines of this host, with the commands that the README shows.
package rehearsal

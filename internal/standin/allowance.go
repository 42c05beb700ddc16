package standin

import "time"

// Allowance is a rate limit: Most requests at once, and one more after each Every.
type Allowance struct {
	Most  int
	Every time.Duration

	used int
	from time.Time // since when the used ones come back
}

// Take reports whether one more request is allowed now, and counts it.
func (a *Allowance) Take(now time.Time) bool {
	a.refill(now)
	if a.used == a.Most {
		return false
	}
	if a.used == 0 {
		a.from = now
	}
	a.used++
	return true
}

// Left returns how many requests are allowed now.
func (a *Allowance) Left(now time.Time) int {
	a.refill(now)
	return a.Most - a.used
}

// Full returns when all are allowed again.
func (a *Allowance) Full(now time.Time) time.Time {
	a.refill(now)
	if a.used == 0 {
		return now
	}
	return a.from.Add(time.Duration(a.used) * a.Every)
}

func (a *Allowance) refill(now time.Time) {
	if a.Every <= 0 {
		return
	}
	n := min(int(now.Sub(a.from)/a.Every), a.used)
	a.used -= n
	a.from = a.from.Add(time.Duration(n) * a.Every)
}

package records_test

import (
	"fmt"
	"slices"
	"testing"

	"kops.local/kops/internal/node/dns/records"
)

func TestBatchesStayWithinTheirLimits(t *testing.T) {
	size := func(n int) []int { return []int{1, n} }
	for _, c := range []struct {
		items       []int
		most, total int
		want        string
	}{
		{nil, 3, 10, "[]"},
		{[]int{1, 2, 3}, 3, 6, "[[1 2 3]]"},
		{[]int{1, 2, 3, 4}, 3, 100, "[[1 2 3] [4]]"},
		{[]int{5, 5, 1}, 9, 10, "[[5 5] [1]]"},
		{[]int{1, 50, 1, 9, 1}, 9, 10, "[[1] [50] [1 9] [1]]"}, // the long one is alone
	} {
		if got := fmt.Sprint(records.Batches(c.items, size, c.most, c.total)); got != c.want {
			t.Errorf("%v in batches of %d, together %d: %s, want %s", c.items, c.most, c.total, got, c.want)
		}
	}
}

func TestTextsHaveQuotesInZoneFiles(t *testing.T) {
	text, address := records.ParseSet("A.example.com.", records.TXT, 60, `"say \"a\""`), records.ParseSet("a.example.com", records.A, 60, "10.0.0.2", "10.0.0.1")
	if !text.Equal(records.NewSet("a.example.com", records.TXT, 60, `say "a"`)) || !slices.Equal(text.Texts(), []string{`"say \"a\""`}) {
		t.Errorf("the text is %+v, in a zone file %v", text, text.Texts())
	}
	if !slices.Equal(address.Texts(), []string{"10.0.0.1", "10.0.0.2"}) {
		t.Errorf("the addresses are %v", address.Texts())
	}
}

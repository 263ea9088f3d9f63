package ipam

import "net/netip"

// Pods returns the number of pods for which the sets of a network have addresses. Each pod takes one address of each
// set. The number is at most 1<<53, which JSON carries exactly.
func Pods(sets []Set) int64 {
	var pods uint64
	for i, s := range sets {
		var size uint64
		for _, r := range s {
			size += min(r.Size(), 1<<53)
		}
		if i == 0 || size < pods {
			pods = size
		}
	}
	return int64(min(pods, 1<<53))
}

// Size returns the number of addresses that the range can hand out, at most 1<<62.
func (r Range) Size() uint64 {
	n := distance(r.Start, r.End)
	if n < 1<<62 {
		n++
	}
	if r.Contains(r.Gateway) {
		n--
	}
	return n
}

// distance returns b-a for a ≤ b, at most 1<<62.
func distance(a, b netip.Addr) uint64 {
	x, y := a.As16(), b.As16()
	var n uint64
	for i := range x {
		if n >= 1<<54 {
			return 1 << 62
		}
		n = n<<8 + uint64(y[i]) - uint64(x[i])
	}
	return n
}

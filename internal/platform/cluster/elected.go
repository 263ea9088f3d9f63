package cluster

// Leads reports whether this replica leads: elected is closed when it is elected.
func Leads(elected <-chan struct{}) bool {
	select {
	case <-elected:
		return true
	default:
		return false
	}
}

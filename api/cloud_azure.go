package api

// AzureSpec holds options for Microsoft Azure.
type AzureSpec struct {
	SubscriptionID string `json:"subscriptionID,omitempty"`
	// StorageAccountID is the resource ID of the store's account.
	StorageAccountID  string `json:"storageAccountID,omitempty"`
	TenantID          string `json:"tenantID,omitempty"`
	ResourceGroupName string `json:"resourceGroupName,omitempty"`
	RouteTableName    string `json:"routeTableName,omitempty"`
	// AdminUser is the login user of machines.
	AdminUser string `json:"adminUser,omitempty"`
}

kops edit cluster --set spec.updatePolicy=external
